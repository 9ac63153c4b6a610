"""Which samples batches for TensorFlow have, and samples that are decoded one by one."""

from __future__ import annotations

import os

import numpy as np
import pytest
from data_sets import files, tar, tfrecord
from thread_ranks import in_job, succeeded

tf = pytest.importorskip("tensorflow")

import horovod_opt.io as hio

pytestmark = pytest.mark.usefixtures("source")
COUNT = 50


@pytest.fixture
def folder(tmp_path) -> str:
    files(tmp_path / "d", {f"{kind}/{i:02d}": f"{kind}{i:02d}".encode() for kind in "ab"
                           for i in range(COUNT // 2)})
    return str(tmp_path / "d")


def rows(ds) -> list[tuple]:
    """number, key, file, record and label of each sample."""
    result = []
    for (records, labels), info in ds:
        columns = (info["numbers"], info["keys"], info["files"], records, labels)
        assert {len(column) for column in columns} == {int(info["size"])}
        result += zip(*(column.numpy().tolist() for column in columns))
    return result


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_numbers_keys_and_files_are_those_of_the_records(folder, ranks):
    def run(open_data, rank):
        with open_data(folder, seed=2) as data:
            ds = hio.tensorflow.dataset(data, 4, with_samples=True)
            loop = iter(ds)
            first = rows([next(loop)])
            del loop
            return first, rows(ds), rows(ds.prefetch(3))

    results = succeeded(in_job(ranks, run))
    for epoch in (1, 2):
        samples = sorted(row for rank in results for row in rank[epoch])
        assert samples == [
            (i, f"{kind}/{j:02d}".encode(), f"{folder}/{kind}/{j:02d}".encode(),
             f"{kind}{j:02d}".encode(), label)
            for i, (label, kind, j) in enumerate(
                (label, kind, j) for label, kind in enumerate("ab") for j in range(COUNT // 2))]
    for first, epoch, _ in results:
        assert epoch[:len(first)] == first


def test_a_loop_that_counts_is_resumed(folder):
    seen = []
    with hio.open(folder, seed=2) as data:
        for (records, _), info in hio.tensorflow.dataset(data, 4, with_samples=True):
            data.taken(info)
            seen += info["numbers"].numpy().tolist()
            if info["step"] == 4:
                break
        state = data.state_dict()
    with hio.open(folder, seed=2) as data:
        data.load_state_dict(state)
        seen += [number for _, info in hio.tensorflow.dataset(data, 4, with_samples=True)
                 for number in info["numbers"].numpy().tolist()]
    assert sorted(seen) == list(range(COUNT))


def test_damaged_samples_are_none_of_them(tmp_path):
    path = tfrecord(tmp_path / "a.tfrecord", [bytes([i]) * 9 for i in range(COUNT)])
    hio.open(path).close()
    status = path.stat()
    with open(path, "r+b") as file:
        for number in (7, 20):
            file.seek(number * (9 + 16) + 12 + 3)
            file.write(b"!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with hio.open(path, bad="skip") as data:
        samples = []
        for records, info in hio.tensorflow.dataset(data, 4, with_samples=True):
            assert [record[0] for record in records.numpy()] == info["numbers"].numpy().tolist()
            assert set(info["keys"].numpy()) <= {b""}
            samples += info["numbers"].numpy().tolist()
    assert sorted(samples) == [i for i in range(COUNT) if i not in (7, 20)]


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("last", ["spread", "drop", "mask"])
def test_each_sample_is_decoded_and_batches_stay_whole(folder, ranks, last):
    def decode(record, label):
        return {"length": tf.strings.length(record), "label": label,
                "text": tf.strings.join([record, "!"])}

    def run(open_data, rank):
        with open_data(folder, seed=2) as data:
            plain = list(hio.tensorflow.dataset(data, 4, last=last, epochs=1))
        with open_data(folder, seed=2) as data:
            ds = hio.tensorflow.dataset(data, 4, last=last, epochs=1, decode=decode, with_info=True)
            return plain, list(ds), ds.element_spec[0]["text"]

    for plain, decoded, spec in succeeded(in_job(ranks, run)):
        assert spec == tf.TensorSpec([None], tf.string) and len(plain) == len(decoded)
        for (records, labels), (batch, info) in zip(plain, decoded):
            assert batch["text"].numpy().tolist() == [record + b"!" for record in records.numpy()]
            assert batch["label"].numpy().tolist() == labels.numpy().tolist()
            assert batch["length"].numpy().tolist() == [3] * int(info["size"])


def test_parts_are_decoded_together(tmp_path):
    path = tar(tmp_path / "a.tar", [(f"{i}.{part}", bytes([i, len(part)]) * 4) for i in range(9)
                                    for part in ("jpg", "json")])

    def decode(parts):
        return tf.stack([tf.io.decode_raw(parts[name], tf.uint8) for name in ("jpg", "json")])

    with hio.open(path, shuffle=False) as data:
        batches = list(hio.tensorflow.dataset(data, 4, decode=decode))
    assert [batch.shape.as_list() for batch in batches] == [[4, 2, 8], [3, 2, 8], [2, 2, 8]]
    assert np.concatenate(batches)[:, 1, :2].tolist() == [[i, 4] for i in range(9)]


def test_a_batch_of_holes_only_is_empty(tmp_path):
    path = tfrecord(tmp_path / "a.tfrecord", [bytes([i]) * 9 for i in range(6)])
    hio.open(path).close()
    status = path.stat()
    with open(path, "r+b") as file:
        file.seek(12 + 3)
        file.write(b"!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with hio.open(path, shuffle=False, bad="skip") as data:
        first, *others = hio.tensorflow.dataset(
            data, 1, decode=lambda record: tf.io.decode_raw(record, tf.uint8), with_samples=True)
    assert first[0].shape[0] == 0 and float(first[1]["weight"]) == 0 and len(
        first[1]["numbers"]) == 0
    assert [batch.numpy().tolist() for batch, _ in others] == [[[i] * 9] for i in range(1, 6)]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_loops_of_some_batches_follow_each_other(folder, ranks):
    """With nothing said of what was taken, with every second batch said, and from a state."""
    def run(open_data, rank):
        with open_data(folder, seed=2) as data:
            ds = hio.tensorflow.dataset(data, 4, with_samples=True, epoch_batches=5)
            assert len(ds) == 5
            steps = [info["numbers"].numpy().tolist() for _ in range(3) for _, info in ds]
            for _, info in [*ds, *ds][:8]:
                steps.append(info["numbers"].numpy().tolist())
                if len(steps) % 2:
                    data.taken(info)
            state = data.state_dict()
        with open_data(folder, seed=2) as data:
            data.load_state_dict(state)
            ds = hio.tensorflow.dataset(data, 4, with_samples=True, epoch_batches=5)
            last = [[info["numbers"].numpy().tolist() for _, info in ds] for _ in range(3)]
            assert [len(loop) for loop in last] == [2, 5, 5]
            return steps + sum(last, [])

    results = succeeded(in_job(ranks, run))
    taken = [number for step in zip(*results) for share in step for number in share]
    for begin in range(0, len(taken) - COUNT, COUNT):
        assert sorted(taken[begin:begin + COUNT]) == list(range(COUNT))


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_samples_come_as_often_as_their_weights_say(folder, ranks):
    def run(open_data, rank):
        with open_data(folder, seed=2, weights=lambda table: table.labels + 1) as data:
            return [key for _, info in hio.tensorflow.dataset(data, 4, with_samples=True)
                    for key in info["keys"].numpy().tolist()]

    taken = [key for own in succeeded(in_job(ranks, run)) for key in own]
    assert sorted(taken) == sorted(
        f"{kind}/{i:02d}".encode() for kind, times in (("a", 1), ("b", 2))
        for i in range(COUNT // 2) for _ in range(times))
