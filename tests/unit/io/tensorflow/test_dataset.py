"""Batches for TensorFlow, in one process and on ranks that are threads."""

from __future__ import annotations

import gc
import itertools
import json
import os
import re
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from data_sets import environment, files, tar, tfrecord
from events import MINUTE, wait_until
from thread_ranks import in_job, on_ranks, succeeded

tf = pytest.importorskip("tensorflow")

import horovod_opt.io as hio
from horovod_opt.io import data_opener
from horovod_opt.io.node_reader import reader_process
from horovod_opt.io.tensorflow.passes import Passes

pytestmark = pytest.mark.usefixtures("source")
COUNT = 300


@pytest.fixture
def tfrecords(tmp_path) -> str:
    """300 records whose last four bytes are their numbers."""
    random = np.random.default_rng(3)
    tfrecord(tmp_path / "a.tfrecord",
             [bytes(int(random.integers(0, 900))) + i.to_bytes(4, "little") for i in range(COUNT)])
    return str(tmp_path / "*.tfrecord")


def numbers(records: tf.Tensor) -> list[int]:
    return [int.from_bytes(record[-4:], "little") for record in records.numpy()]


def loop(ds) -> list[list[int]]:
    return [numbers(batch) for batch in ds]


def test_every_sample_once_in_each_epoch_though_nobody_counts(tfrecords):
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        ds = hio.tensorflow.dataset(data, 32, epochs=2).prefetch(4)
        epochs = [loop(ds), loop(ds)]
        assert epochs[0] != epochs[1]
        for epoch in epochs:
            assert len(epoch) == int(ds.cardinality()) == 10
            assert sorted(sum(epoch, [])) == list(range(COUNT))
        assert data.stats()["samples"] == 2 * COUNT


@pytest.mark.parametrize("order", ["window", "ordered"])
def test_what_is_kept_comes_from_other_nodes(tfrecords, monkeypatch, order):
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)
    through = threading.Barrier(2)

    def on_rank(open_data, rank: int):
        with open_data(tfrecords, seed=5, chunk_samples=16, cache="1MiB", order=order) as data:
            ds = hio.tensorflow.dataset(data, 16, epochs=3)
            epochs = [loop(ds) for _ in range(3)]
            through.wait(MINUTE)
            return epochs, data.stats()

    epochs, stats = zip(*succeeded(in_job(2, on_rank, 1)))
    for of_ranks in zip(*epochs):
        assert sorted(sum(sum(of_ranks, []), [])) == list(range(COUNT))
    whole = os.path.getsize(tfrecords.replace("*", "a"))
    assert sum(node["node_bytes_read"] for node in stats) <= whole
    assert sum(node["peer_bytes"] for node in stats) > whole // 2
    assert sum(node["fallback_bytes"] for node in stats) == 0


def test_the_order_is_pytorchs(tfrecords):
    torch = pytest.importorskip("torch")
    with hio.open(tfrecords, seed=5) as data:
        expected = [batch.tolist() for batch in hio.torch.loader(
            data, 32, epochs=1, decode=lambda sample: torch.tensor(
                int.from_bytes(sample.data[-4:], "little")))]
    with hio.open(tfrecords, seed=5) as data:
        assert loop(hio.tensorflow.dataset(data, 32)) == expected


def test_what_was_fetched_ahead_does_not_count(tfrecords):
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        batches = iter(hio.tensorflow.dataset(data, 32, with_info=True).prefetch(8))
        before = []
        for _ in range(3):
            records, info = next(batches)
            before += numbers(records)
            assert data.position == info["start"]
            data.taken(info)
        state = json.loads(json.dumps(data.state_dict()))
        assert state["position"] == 96
        rest = [numbers(records) for records, _ in batches]
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        data.load_state_dict(state)
        ds = hio.tensorflow.dataset(data, 32).prefetch(2)
        assert int(ds.cardinality()) == 10
        assert loop(ds) == rest and len(rest) == 7
        assert sorted(before + sum(rest, [])) == list(range(COUNT))
        assert sorted(sum(loop(ds), [])) == list(range(COUNT))  # a whole epoch again
        assert data.epoch == 1


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("every, untold", [(1, 0), (3, 1), (4, 2), (10, 0), (99, 0)])
def test_who_speaks_after_every_kth_batch_comes_to_the_next_epoch(tfrecords, every, untold, is_new,
                                                                  capfd):
    """10 steps: the last ones are not spoken of, or none. Also with a new data set for each. What
    that takes for granted is said, once."""
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        ds, epochs = hio.tensorflow.dataset(data, 32, with_info=True).prefetch(2), []
        while len(epochs) < 3:
            if is_new:
                ds = hio.tensorflow.dataset(data, 32, with_info=True).prefetch(2)
            samples = []
            for step, (records, info) in enumerate(ds):
                samples += numbers(records)
                assert int(info["epoch"]) == len(epochs)
                if step % every == every - 1:
                    data.taken(info)
            assert sorted(samples) == list(range(COUNT))
            epochs.append(samples)
        assert epochs[0] != epochs[1] != epochs[2]
    said = re.findall(r"data\.taken\(\) has not heard of the last (\d+) batches of epoch 0 in the "
                      "loop before, which count as used", capfd.readouterr().err)
    assert said == [str(untold)] * (untold > 0)


def test_a_loop_left_in_batches_that_nobody_spoke_of_is_gone_on_from_a_state(tfrecords, capfd):
    """As the line says."""
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        ds = hio.tensorflow.dataset(data, 32, with_info=True, epoch_batches=10).prefetch(20)
        taken = []
        for step, (records, info) in enumerate(ds):
            if step == 8:
                break
            taken += numbers(records)
            if step % 4 == 3:
                data.taken(info)
        data.load_state_dict(data.state_dict())
        assert sorted(taken + sum((numbers(records) for records, _ in itertools.islice(ds, 2)), [])
                      ) == list(range(COUNT))
    assert "has not heard" not in capfd.readouterr().err


@pytest.mark.parametrize("prefetch", [1, 20])
def test_a_loop_that_is_left_begins_anew_though_all_was_fetched(tfrecords, prefetch):
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        ds = hio.tensorflow.dataset(data, 32, with_info=True).prefetch(prefetch)
        for step, (_, info) in enumerate(ds):
            data.taken(info)
            if step == 7:
                break
        assert sorted(sum((numbers(records) for records, _ in ds), [])) == list(range(COUNT))


def test_a_loop_asks_for_one_pass_wherever_it_is_left(tfrecords, monkeypatch):
    """The rest of an epoch, fewer batches than the data set is said to have: whoever asked again at
    its end, and was cancelled in this moment, left the next loop without a batch."""
    asked, begin = [], Passes.begin

    def begin_once(passes: Passes):
        asked.append(len(taken))
        if asked.count(len(taken)) > 1:
            raise RuntimeError("TensorFlow cancels what is left")
        return begin(passes)

    monkeypatch.setattr(Passes, "begin", begin_once)
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        ds, taken = hio.tensorflow.dataset(data, 32, with_info=True), []
        for batches in (3, 4, 2):  # of three that are left; four: to the end
            data.load_state_dict({**data.state_dict(), "position": COUNT - 76})
            rest = iter(ds.prefetch(8))
            with suppress(tf.errors.OpError, StopIteration):
                for _ in range(batches):
                    data.taken(next(rest)[1])
            del rest
            taken.append([])
            for records, info in ds:
                taken[-1] += numbers(records)
                data.taken(info)
            assert sorted(taken[-1]) == list(range(COUNT)), (
                f"after {batches} batches of 3 a loop has {len(taken[-1])} samples")
            taken.append([])


def test_info(tfrecords):
    with hio.open(tfrecords, seed=5) as data:
        ds = hio.tensorflow.dataset(data, 70, with_info=True)
        infos = [{name: value.numpy().item() for name, value in info.items()} for _, info in ds]
    assert infos[0] == dict(epoch=0, step=0, start=0, end=70, size=70, slots=70, weight=1.0)
    assert [info["size"] for info in infos] == [70, 70, 70, 45, 45]


def test_parse_gets_a_batch(tfrecords):
    def parse(records):
        return tf.strings.length(records)

    with hio.open(tfrecords, shuffle=False) as data:
        ds = hio.tensorflow.dataset(data, 32).map(parse)
        assert ds.element_spec == tf.TensorSpec([None], tf.int32)
        assert sum(len(batch) for batch in ds) == COUNT


def test_drop_ends_the_epoch(tfrecords):
    with hio.open(tfrecords, seed=5) as data:
        ds = hio.tensorflow.dataset(data, 32, last="drop", with_info=True)
        epochs = []
        for _ in range(2):
            for records, info in ds:
                data.taken(info)
                epochs.append(int(info["epoch"]))
        assert epochs == [0] * 9 + [1] * 9
        assert (data.epoch, data.position) == (2, 0)


def test_a_folder_of_classes(tmp_path):
    files(tmp_path, {f"{kind}/{i}": f"{kind}{i}".encode() for kind in "ab" for i in range(5)})
    with hio.open(tmp_path, shuffle=False) as data:
        (records, labels), = hio.tensorflow.dataset(data, 10)
    assert records.numpy().tolist() == [f"{kind}{i}".encode() for kind in "ab" for i in range(5)]
    assert labels.dtype == tf.int64 and labels.numpy().tolist() == [0] * 5 + [1] * 5


def test_samples_of_several_parts(tmp_path):
    tar(tmp_path / "a.tar", [(f"{i}.{part}", f"{part}{i}".encode())
                             for i in range(4) for part in ("cls", "txt")])
    with hio.open(tmp_path / "a.tar", shuffle=False) as data:
        batch, = hio.tensorflow.dataset(data, 4)
    assert {name: records.numpy().tolist() for name, records in batch.items()} == {
        part: [f"{part}{i}".encode() for i in range(4)] for part in ("cls", "txt")}


def test_an_lmdb(tmp_path):
    environment(tmp_path / "lmdb", {f"{i:03}".encode(): bytes(i) for i in range(20)})
    with hio.open(tmp_path / "lmdb", shuffle=False) as data:
        batches = list(hio.tensorflow.dataset(data, 8))
    assert [len(record) for batch in batches for record in batch.numpy()] == list(range(20))


def damage(tmp_path) -> None:
    path = tmp_path / "a.tfrecord"
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_damaged_record_is_an_error_that_names_it(tfrecords, tmp_path):
    hio.open(tfrecords).close()
    damage(tmp_path)
    with hio.open(tfrecords, seed=5) as data:
        with pytest.raises(tf.errors.OpError, match=r"a\.tfrecord, offset \d+, sample 1\d\d: its "
                                                    "checksum is not the one that was indexed"):
            loop(hio.tensorflow.dataset(data, 32))


def test_an_error_is_no_end(tfrecords, tmp_path):
    """Who asks again hears it again, and a new loop begins the epoch anew."""
    hio.open(tfrecords).close()
    damage(tmp_path)
    with hio.open(tfrecords, seed=5) as data:
        ds = hio.tensorflow.dataset(data, 32)
        for _ in range(2):
            batches, taken = iter(ds), 0
            with pytest.raises(tf.errors.OpError, match="DataError: .*checksum"):
                while True:
                    next(batches)
                    taken += 1
            for _ in range(3):
                with pytest.raises(tf.errors.OpError, match="DataError: .*checksum"):
                    next(batches)
            assert 0 < taken < 10


def test_what_is_counted_as_waiting(tfrecords):
    with hio.open(tfrecords, seed=5) as data:
        start, slept = time.monotonic(), 0.0
        for _ in hio.tensorflow.dataset(data, 100, epochs=1):
            time.sleep(0.5)
            slept += 0.5
        waited = data.stats()["training_wait_seconds"]
        assert slept == 1.5 and 0 < waited < time.monotonic() - start - slept


def test_a_damaged_record_can_be_left_out(tfrecords, tmp_path):
    hio.open(tfrecords).close()
    damage(tmp_path)
    with hio.open(tfrecords, seed=5, bad="skip") as data:
        batches = list(hio.tensorflow.dataset(data, 32, with_info=True))
        hole, = data.holes[0]
        assert sorted(sum((numbers(records) for records, _ in batches), [])) == [
            i for i in range(COUNT) if i != hole]
        short, = (info for _, info in batches if info["weight"] != 1)
        size = int(short["end"] - short["start"])
        assert int(short["size"]) == size - 1
        assert float(short["weight"]) == pytest.approx((size - 1) / size)


def test_a_file_that_is_gone_is_no_damage(tfrecords, tmp_path):
    """All ranks say so."""
    def train(open_data, rank: int) -> dict:
        with open_data(tfrecords, seed=1, bad="skip", bad_limit=1.0) as data:
            data.ranks.allgather(b"all have opened it")
            (tmp_path / "a.tfrecord").unlink(missing_ok=True)
            data.ranks.allgather(b"it is gone")
            with pytest.raises(tf.errors.OpError, match="No such file or directory; remedy"):
                list(hio.tensorflow.dataset(data, 32))
            return data.holes

    assert succeeded(in_job(2, train)) == [{}, {}]


def test_an_error_of_the_reader_reaches_every_rank(tfrecords, failing_reader):
    def train(open_data, rank: int) -> bool:
        with open_data(tfrecords, seed=1, chunk_samples=2) as data:
            with pytest.raises(tf.errors.OpError, match=failing_reader):
                list(hio.tensorflow.dataset(data, 2))
            return True

    assert succeeded(in_job(2, train)) == [True, True]


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_share_an_epoch(tfrecords, monkeypatch, ranks):
    local = threading.local()
    monkeypatch.setattr(data_opener, "find", lambda: local.ranks)

    def epoch(communication) -> list:
        local.ranks = communication
        with hio.open(tfrecords, seed=5) as data:
            ds = hio.tensorflow.dataset(data, global_batch_size=32, with_info=True)
            return [(numbers(records), float(info["weight"])) for records, info in ds]

    results = on_ranks(ranks, epoch)
    assert all(isinstance(result, list) for result in results), results
    assert len({len(result) for result in results}) == 1 and results[0]
    assert sorted(number for result in results for batch, _ in result for number in batch) == list(
        range(COUNT))
    for step in zip(*results):
        assert sum(weight for _, weight in step) == pytest.approx(ranks)


def test_who_waits_for_the_reader_hears_that_the_data_is_closed(tmp_path):
    """Rank 0 is as far ahead of rank 1 as the node's memory lets it: 6 chunks, of a step each."""
    tfrecord(tmp_path / "a.tfrecord", [bytes(1000)] * 400)
    is_over = threading.Event()

    def rank_of(open_data, rank: int) -> int:
        data = open_data(tmp_path / "a.tfrecord", chunk_samples=8, shards=1, window=1, memory=50000)
        ds = hio.tensorflow.dataset(data, 4)
        taken = 0

        def close() -> None:
            try:
                wait_until(lambda: taken >= 6)
                time.sleep(0.2)  # closed before the wait or in it: both are heard of
            finally:
                data.close()

        try:
            if rank == 1:
                next(iter(ds))  # ranks begin together
                assert is_over.wait(MINUTE)
                return taken
            threading.Thread(target=close).start()
            with pytest.raises(tf.errors.OpError, match="closed"):
                for _ in ds:
                    taken += 1
            return taken
        finally:
            is_over.set()
            data.close()

    ahead, none = in_job(2, rank_of)
    assert none == 0 and 0 < ahead < 25  # of 50 steps


def test_an_iterator_that_is_dropped_leaves_no_thread(tfrecords):
    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate()
                if thread.name in ("hio-decode", "hio-steps")]

    def have_ended() -> bool:
        return wait_until(lambda: not threads())

    gc.collect()  # errors of other tests hold iterators, whose threads TensorFlow ends later
    assert have_ended()
    with hio.open(tfrecords, seed=5, chunk_samples=16) as data:
        batches = iter(hio.tensorflow.dataset(data, 8).prefetch(2))
        next(batches)
        assert threads()
        del batches
        assert have_ended()


@pytest.mark.parametrize("ranks, kind", [(1, "GZIP"), (2, "ZLIB"), (3, "GZIP")])
def test_records_that_tensorflow_has_compressed(tmp_path, ranks, kind):
    records = [bytes([i]) * 40 for i in range(50)]
    for file in range(2):
        with tf.io.TFRecordWriter(str(tmp_path / f"{file}.tfrecord"), kind) as writer:
            for record in records[file::2]:
                writer.write(record)
    pattern = str(tmp_path / "*.tfrecord")

    def run(open_data, rank):
        with open_data(pattern, seed=3, chunk_samples=4) as data:
            ds, taken = hio.tensorflow.dataset(data, 4, with_info=True), []
            for batch, info in ds:
                taken += batch.numpy().tolist()
                if info["step"] == 2:
                    data.taken(info)
                    break
            state = json.dumps(data.state_dict())
        with open_data(pattern, seed=3, chunk_samples=4) as data:
            data.load_state_dict(json.loads(state))
            return taken + [record for batch in hio.tensorflow.dataset(data, 4)
                            for record in batch.numpy().tolist()]

    taken = [record for own in succeeded(in_job(ranks, run)) for record in own]
    files = sorted(map(str, tmp_path.glob("*.tfrecord")))
    assert sorted(taken) == sorted(tf.data.TFRecordDataset(files, kind).as_numpy_iterator())
    assert sorted(taken) == records
