"""Python objects from rank to rank: hvd.broadcast_object and hvd.allgather_object of PyTorch and
TensorFlow.

An object travels pickled, as two tensors: how many bytes, and the bytes. Where a rank cannot pickle
its object, the others would wait for it; so a negative number says that the bytes are the error.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

# Upstream counts elements in 32 bits.
MOST_BYTES = 2**31 - 1


def broadcast(value: Any, root: int, is_root: bool,
              send: Callable[[np.ndarray, str], np.ndarray]) -> Any:
    """The root's object, on all ranks. `send` broadcasts an array; its second argument is for the
    name of the tensor."""
    if is_root:
        data, size, error = _pickle(value)
        send(np.array([size]), "sz")
        _refuse_large(size, f"the object of rank {root}")
        send(data, "t")
        if error is not None:
            raise error
        return value
    size = int(send(np.zeros(1, np.int64), "sz")[0])
    _refuse_large(size, f"the object of rank {root}")
    data = send(np.empty(abs(size), np.uint8), "t")
    if size < 0:
        raise _unpicklable({root: data})
    return pickle.loads(memoryview(data))


def allgather(value: Any, gather: Callable[[np.ndarray, str], np.ndarray]) -> list[Any]:
    """The objects of all ranks, in their order. `gather` gathers arrays; its second argument is for
    the name of the tensor."""
    data, size, error = _pickle(value)
    sizes = gather(np.array([size]), "sz")
    ends = np.cumsum(np.abs(sizes))
    _refuse_large(int(ends[-1]), f"the objects of all {len(sizes)} ranks together")
    parts = np.split(gather(data, "t"), ends[:-1])
    if error is not None:
        raise error
    if sizes.min() < 0:
        raise _unpicklable({rank: parts[rank] for rank in np.flatnonzero(sizes < 0)})
    return [pickle.loads(memoryview(part)) for part in parts]


def _pickle(value: Any) -> tuple[np.ndarray, int, Exception | None]:
    """The bytes, how many, and the error if they are its text."""
    buffer, error = io.BytesIO(), None
    try:
        cloudpickle.dump(value, buffer)
    except Exception as problem:  # whatever the object's own methods raise
        buffer, error = io.BytesIO(f"{type(problem).__name__}: {problem}".encode()), problem
    data = np.frombuffer(buffer.getbuffer(), np.uint8)
    return data, len(data) if error is None else -len(data), error


def _refuse_large(size: int, what: str) -> None:
    """All ranks know the size, so all raise."""
    if size > MOST_BYTES:
        raise ValueError(f"{what} have {size} bytes when pickled, and one call moves at most "
                         f"{MOST_BYTES}: send them in parts, or tensors by hvd.broadcast")


def _unpicklable(texts: dict[int, np.ndarray]) -> RuntimeError:
    return RuntimeError("; ".join(f"rank {rank} cannot pickle its object: {bytes(text).decode()}"
                                  for rank, text in texts.items()))
