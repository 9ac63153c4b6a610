"""Packs in PyTorch and TensorFlow: batches are those of the folder, compressed or not."""

from __future__ import annotations

import data_sets
import pytest

import horovod_opt.io as hio
from horovod_opt.io.pack.listing import list_source
from horovod_opt.io.pack.packer import pack
from horovod_opt.io.pack.plan import Options

FILES = {f"{name}/{i}.txt": f"{name} {i} ".encode() * 99 for name in "ab" for i in range(15)}
EXPECTED = sorted((data, "ab".index(name[0])) for name, data in FILES.items())


@pytest.fixture(params=[None, 3], ids=["plain", "zstd"])
def packed(request, tmp_path, unsynced):
    source = data_sets.files(tmp_path / "source", FILES)
    pack(list_source([str(source)], None, 0), tmp_path / "out",
         Options(16 << 10, 0, request.param))
    return tmp_path / "out"


def read(sample):
    return bytes(sample.data), sample.label


@pytest.mark.parametrize("options", [
    {"decode": read, "collate": list}, {"collate": list},
    {"decode": read, "collate": list, "workers": 1},
    {"decode_batch": lambda samples: [(bytes(data), label) for data, label in zip(
        samples, samples.labels.tolist())]}], ids=["decode", "plain", "workers", "decode_batch"])
def test_pytorchs_loader(packed, options):
    pytest.importorskip("torch")
    with hio.open(packed) as data:
        batches = list(hio.torch.loader(data, 4, epochs=1, **options))
    assert sorted(tuple(sample) for batch in batches for sample in batch) == EXPECTED


def test_pytorchs_dataset(packed):
    torch = pytest.importorskip("torch")
    with hio.open(packed) as data:
        ours = hio.torch.Dataset(data, read)
        assert sorted(ours[number] for number in range(len(ours))) == EXPECTED
        loader = torch.utils.data.DataLoader(
            ours, batch_sampler=hio.torch.BatchSampler(data, 4), collate_fn=list)
        assert sorted(sample for batch in loader for sample in batch) == EXPECTED


def test_tensorflow(packed):
    pytest.importorskip("tensorflow")
    with hio.open(packed) as data:
        batches = list(hio.tensorflow.dataset(data, 4, epochs=1))
    assert sorted((record, label) for records, labels in batches for record, label in zip(
        records.numpy().tolist(), labels.numpy().tolist())) == EXPECTED
