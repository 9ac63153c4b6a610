"""What autograph rewrites of Horovod: nothing, except where it calls a user's compressor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("horovod.tensorflow")

from horovod.tensorflow import mpi_ops

from horovod_opt.tracing import two_ranks


class ByValue(hvd.Compression.none):
    """Halves positive tensors: its `if` is one of Python's, and depends on a tensor."""

    @staticmethod
    def compress(tensor):
        if tf.reduce_sum(tensor) > 0.0:
            tensor = tensor / 2.0
        return tensor, None


def reduced_by_tape(tensor, **how):
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        loss = tf.reduce_sum(tensor * tensor)
    return hvd.DistributedGradientTape(tape, **how).gradient(loss, [tensor])


class OfKeras:
    """Its optimizer is made outside of the traced function, as they are."""

    def __init__(self, **how):
        self.weight = tf.Variable(tf.ones([4]))
        self.optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(), **how)
        self.optimizer.build([self.weight])

    def __call__(self, tensor):
        self.optimizer.apply_gradients([(tensor, self.weight)])


COMPRESSING = {
    "tape": lambda **how: lambda tensor: reduced_by_tape(tensor, **how),
    "groups": lambda **how: lambda tensor: reduced_by_tape(tensor, groups=1, **how),
    "optimizer": lambda **how: OfKeras(**how),
    "allreduce": lambda **how: lambda tensor: hvd.allreduce(tensor, **how),
    "grouped_allreduce": lambda **how: lambda tensor: hvd.grouped_allreduce([tensor], **how),
    "reducescatter": lambda **how: lambda tensor: hvd.reducescatter(tensor, **how),
    "grouped_reducescatter": lambda **how: lambda tensor: hvd.grouped_reducescatter(
        [tensor], **how),
}
OTHERS = {
    "positional": lambda tensor: hvd.reducescatter(tensor, "", hvd.Compression.fp16),
    "allgather": hvd.allgather,
    "grouped_allgather": lambda tensor: hvd.grouped_allgather([tensor]),
    "broadcast": lambda tensor: hvd.broadcast(tensor, 0),
    "alltoall": hvd.alltoall,
}
OURS = ("none", "fp16", "bf16")


@pytest.fixture
def callers(monkeypatch):
    """Of each operation that is traced, the names of the files whose functions call it."""
    names = []

    class Library:
        def __getattr__(self, name):
            function = getattr(library, name)
            if not name.startswith("horovod_") or name.endswith(("size", "included")):
                return function

            def record(*args, **kwargs):
                frame, files = sys._getframe(1), []
                while frame:
                    files.append(Path(frame.f_code.co_filename))
                    frame = frame.f_back
                names.append(files)
                return function(*args, **kwargs)
            return record

    library = mpi_ops.MPI_LIB
    monkeypatch.setattr(mpi_ops, "MPI_LIB", Library())
    return names


def trace(function) -> None:
    @tf.function
    def step(tensor):
        function(tensor)

    with two_ranks():
        step.get_concrete_function(tf.TensorSpec([4]))


def is_rewritten(path: Path) -> bool:
    return path.name.startswith("__autograph_generated_file")


@pytest.mark.parametrize("name", COMPRESSING)
@pytest.mark.parametrize("compression", OURS)
def test_what_compresses_as_horovod_does_is_left_as_it_is(callers, name, compression):
    trace(COMPRESSING[name](compression=getattr(hvd.Compression, compression)))
    [files] = callers
    assert [path.name for path in files[:2]] == ["mpi_ops.py", "__init__.py"]
    assert any(map(is_rewritten, files))  # the function that is traced


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_compress_is_left_as_it_is(callers, name):
    trace(OTHERS[name])
    [files] = callers
    assert files[0].name == "mpi_ops.py" and any(map(is_rewritten, files))


@pytest.mark.parametrize("name", COMPRESSING)
def test_a_compressor_may_depend_on_values(callers, name):
    trace(COMPRESSING[name](compression=ByValue))
    assert is_rewritten(callers[0][0])


def test_so_may_one_that_is_an_object_or_given_by_its_place(callers):
    trace(lambda tensor: hvd.allreduce(tensor, compression=ByValue()))
    trace(lambda tensor: hvd.reducescatter(tensor, "", ByValue))
    assert len(callers) == 2 and all(is_rewritten(files[0]) for files in callers)
