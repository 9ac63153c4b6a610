"""The sources of the suite training of `horovod-opt io bench` make the same batches of the same
bytes."""

from __future__ import annotations

import importlib
import sys

import pytest

from horovod_lab.bench.worker_job import WORKERS

tf = pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

pytestmark = pytest.mark.usefixtures("library", "kernel")
PIXELS = 8


@pytest.fixture
def sources(monkeypatch):
    """As a rank imports it, with fewer records."""
    monkeypatch.syspath_prepend(str(WORKERS))
    for name in ("images", "input_sources"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    images = importlib.import_module("images")
    monkeypatch.setattr(images, "FILES", 2)
    monkeypatch.setattr(images, "IMAGES_PER_FILE", 4)
    module = importlib.import_module("input_sources")
    monkeypatch.setattr(module, "RAW_FILES", 2)
    monkeypatch.setattr(module, "RAW_PER_FILE", 4)
    return module


def classes(batches, count: int) -> list[list[int]]:
    batch_list = list(batches.take(count))
    for images, _ in batch_list:
        assert images.shape == (2, PIXELS, PIXELS, 3) and images.dtype == tf.float32
        assert 0 <= float(tf.reduce_min(images)) <= float(tf.reduce_max(images)) <= 1
    return [labels.numpy().tolist() for _, labels in batch_list]


def test_an_epoch_has_every_record_once_and_another_follows(sources, tmp_path):
    sources.make(tmp_path, PIXELS)
    place = sources.Place(tmp_path, 2, PIXELS, 0, 1)
    for name in ("memory", "hio", "tf-data", "hio-raw", "tf-data-raw"):
        labels = classes(sources.SOURCES[name](place), 8)
        assert sorted(sum(labels[:4], [])) == sorted(sum(labels[4:], [])) == list(range(8)), name
    assert classes(sources.SOURCES["synthetic"](place), 2) == [[0, 1]] * 2
