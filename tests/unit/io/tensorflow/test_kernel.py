"""Batches out of the kernel and out of the generator, and what is said where there is no kernel."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading

import pytest
from data_sets import files, tfrecord
from events import MINUTE, wait_until
from thread_ranks import in_job, succeeded

tf = pytest.importorskip("tensorflow")

import horovod_opt.io as hio
from horovod_opt.io.tensorflow import dataset as dataset_function
from horovod_opt.io.tensorflow import kernel as kernels

dataset_module = sys.modules[dataset_function.__module__]


def elements(pattern, batch_size: int, **options) -> list[list]:
    """Of two epochs, the last two batches of the first one in a pass of their own."""
    batches = []
    with hio.open(pattern, seed=4, chunk_samples=8, **options) as data:
        ds = hio.tensorflow.dataset(data, batch_size, with_info=True)
        for count in (int(ds.cardinality()) - 2, None, None):
            for element in ds.take(count) if count else ds:
                data.taken(element[1])
                batches.append([tensor.numpy().tolist() for tensor in tf.nest.flatten(element)])
            data.load_state_dict(data.state_dict())
    return batches


@pytest.mark.parametrize("kind", ["tfrecord", "folder", "skip"])
def test_both_make_the_same(tmp_path, kernel, monkeypatch, kind):
    if kind == "folder":
        files(tmp_path, {f"{label}/{i}": f"{label}{i}".encode() * i
                         for label in "ab" for i in range(40)})
        pattern = tmp_path
    else:
        pattern = tfrecord(tmp_path / "a.tfrecord",
                           [bytes([i % 256]) * (37 * i % 4001) for i in range(200)])
    options = {"bad": "skip"} if kind == "skip" else {}
    if kind == "skip":
        hio.open(pattern).close()
        damage(pattern)
    assert kernels.operations() is not None
    by_kernel = elements(pattern, 8, **options)
    monkeypatch.setattr(dataset_module, "operations", lambda: None)
    by_generator = elements(pattern, 8, **options)
    assert len(by_kernel) == len(by_generator) > 10
    for first, second in zip(by_kernel, by_generator):
        assert first == second


def damage(path) -> None:
    status = path.stat()
    content = bytearray(path.read_bytes())
    for place in range(len(content) // 4, len(content), len(content) // 4):
        content[place] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_an_iterator_that_waits_is_cancelled(tmp_path, kernel):
    """Rank 0 is as far ahead of rank 1 as memory lets it: 6 chunks, of a step each. Dropping its
    iterator joins the thread that prefetches."""
    tfrecord(tmp_path / "a.tfrecord", [bytes(1000)] * 400)
    is_over = threading.Event()

    def rank_of(open_data, rank: int) -> int:
        with open_data(tmp_path / "a.tfrecord", chunk_samples=8, shards=1, window=1,
                       memory=50000) as data:
            ds = hio.tensorflow.dataset(data, 4)
            if rank == 1:
                next(iter(ds))  # ranks begin together
                assert is_over.wait(MINUTE)
                return 0
            try:
                batches = iter(ds.prefetch(100))
                next(batches)
                wait_until(lambda: data.stats()["samples"] >= 7 * 4)
                threading.Event().wait(0.2)  # then the prefetching waits for the node's reader
                del batches
            finally:
                is_over.set()
            return 1

    assert in_job(2, rank_of) == [1, 0]


def test_what_the_feeder_raises_is_the_error(tmp_path, kernel, monkeypatch):
    pattern = tfrecord(tmp_path / "a.tfrecord", [bytes(10)] * 40)
    with hio.open(pattern, seed=1) as data:
        ds = hio.tensorflow.dataset(data, 8)

        def failing(*_: object):
            raise RuntimeError("it has failed")
            yield

        monkeypatch.setattr("horovod_opt.io.step_source.StepSource.step_groups", failing)
        with pytest.raises(tf.errors.UnknownError, match="RuntimeError: it has failed"):
            list(ds)


@pytest.fixture
def kernel_at(monkeypatch):
    """Sets where the kernel is; what was loaded before is loaded again afterwards."""
    kernels.operations.cache_clear()
    yield lambda path: monkeypatch.setattr(kernels, "_path", lambda: path)
    kernels.operations.cache_clear()


def test_where_it_was_not_built_that_is_said_once(tmp_path, kernel_at, capfd):
    kernel_at(tmp_path / "missing.so")
    pattern = tfrecord(tmp_path / "a.tfrecord", [bytes(10)] * 4)
    for _ in range(2):
        with hio.open(pattern) as data:
            assert len(list(hio.tensorflow.dataset(data, 2))) == 2
    message = capfd.readouterr().err
    assert message.count("batches for TensorFlow are made in Python") == 1
    assert "missing.so is not there" in message


def test_what_cannot_be_loaded_is_not_used(tmp_path, kernel_at, capfd):
    path = tmp_path / "broken.so"
    path.write_bytes(b"no library")
    kernel_at(path)
    assert kernels.operations() is None
    assert f"{path} cannot be loaded" in capfd.readouterr().err


@pytest.mark.parametrize("source", ["kernel", "generator"])
def test_another_loop_ends_the_one_before(tmp_path, kernel, monkeypatch, source):
    records = sorted(b"%d" % i for i in range(4000))
    pattern = tfrecord(tmp_path / "a.tfrecord", records)
    if source == "generator":
        monkeypatch.setattr(dataset_module, "operations", lambda: None)
    with hio.open(pattern, seed=1) as data:
        ds = hio.tensorflow.dataset(data, 4)
        first = iter(ds)
        next(first)
        second = iter(ds)
        numbers = next(second).numpy().tolist()
        with pytest.raises(tf.errors.OpError, match="another loop over the same data set"):
            for _ in first:  # what it had fetched, first of all
                pass
        for batch in second:
            numbers += batch.numpy().tolist()
        assert sorted(numbers) == records


@pytest.mark.parametrize("is_left", [False, True])
def test_no_thread_stays_behind_a_pass(tmp_path, kernel, is_left):
    pattern = tfrecord(tmp_path / "a.tfrecord", [bytes(10)] * 4000)
    with hio.open(pattern, seed=1) as data:
        before = set(threading.enumerate())
        batches = iter(hio.tensorflow.dataset(data, 4))
        next(batches)  # more are fetched ahead, but not 1000
        feeder, = (thread for thread in set(threading.enumerate()) - before
                   if thread.name == "hio-steps")
        if not is_left:
            assert sum(1 for _ in batches) == 999
        del batches
        feeder.join(MINUTE)
        assert not feeder.is_alive()


def test_the_c_library_goes_on_keeping_memory(tmp_path, kernel):
    """Of a size that was freed once, as the tensors of each step of a training are."""
    pattern = tfrecord(tmp_path / "a.tfrecord", [bytes(10)] * 40)
    program = f"""
import ctypes
import horovod_opt.io as hio

class Info(ctypes.Structure):  # struct mallinfo2 of the GNU C library
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

with hio.open({str(pattern)!r}) as data:
    assert len(list(hio.tensorflow.dataset(data, 4))) == 10
c = ctypes.CDLL(None)
c.malloc.restype, c.free.argtypes, c.mallinfo2.restype = ctypes.c_void_p, [ctypes.c_void_p], Info
c.free(c.malloc(8 << 20))
before = c.mallinfo2().hblks
assert c.malloc(4 << 20)
assert c.mallinfo2().hblks == before, "memory comes from the kernel each time"
"""
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("the C library has no mallinfo2()")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_a_number_that_no_queue_has(kernel):
    steps = kernels.StepsDataset(kernels.operations(), tf.constant(1 << 40, tf.int64),
                                 [tf.TensorSpec([None], tf.string)])
    with pytest.raises(tf.errors.FailedPreconditionError, match="loop over the data set anew"):
        next(iter(steps))


def test_labels_of_no_samples(tmp_path, kernel):
    """Of 3 samples for 2 ranks a step has none for one of them."""
    files(tmp_path, {f"a/{i}": b"x" for i in range(3)})

    def rank_of(open_data, rank: int) -> list:
        with open_data(tmp_path, shuffle=False) as data:
            return [(len(records), labels.numpy().tolist()) for records, labels in
                    hio.tensorflow.dataset(data, 1, last="mask")]

    results = succeeded(in_job(2, rank_of))
    assert sorted(sum(results, [])) == [(0, []), (1, [0]), (1, [0]), (1, [0])]
