"""Objects from rank to rank, without Horovod: a simulated job of some ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from horovod_opt import objects

RANKS = 3


class Meeting:
    """Where threads, a rank each, meet; tensors of one name must come together."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(RANKS, timeout=60)
        self.sent: dict[int, tuple[str, np.ndarray]] = {}

    def exchange(self, rank: int, name: str, array: np.ndarray) -> list[np.ndarray]:
        assert array.dtype in (np.uint8, np.int64) and array.ndim == 1
        self.sent[rank] = name, array.copy()
        self.barrier.wait()
        sent = [self.sent[other] for other in range(RANKS)]
        self.barrier.wait()
        assert {name for name, _ in sent} == {name}
        return [array for _, array in sent]

    def broadcast(self, rank: int, root: int, name: str, array: np.ndarray) -> np.ndarray:
        arrays = self.exchange(rank, name, array)
        assert {own.shape for own in arrays} == {array.shape}
        return arrays[root]


def outcomes(act: Callable[[Meeting, int], object]) -> list[object]:
    """What each rank got, or its error."""
    meeting = Meeting()

    def run(rank: int) -> object:
        try:
            return act(meeting, rank)
        except Exception as error:
            return error

    with ThreadPoolExecutor(RANKS) as pool:
        return list(pool.map(run, range(RANKS)))


def broadcast(value_of: Callable[[int], object], root: int = 1) -> list[object]:
    return outcomes(lambda meeting, rank: objects.broadcast(
        value_of(rank), root, rank == root,
        lambda array, part: meeting.broadcast(rank, root, part, array)))


def allgather(value_of: Callable[[int], object]) -> list[object]:
    return outcomes(lambda meeting, rank: objects.allgather(
        value_of(rank),
        lambda array, part: np.concatenate(meeting.exchange(rank, part, array))))


class Stubborn:
    def __reduce__(self):
        raise ZeroDivisionError("not this one")


VALUES = [None, 0, "ünï", b"", {"step": 3, "array": np.arange(5)}, [1, (2, {3})], lambda: 7]


@pytest.mark.parametrize("value", VALUES, ids=[str(type(value)) for value in VALUES])
def test_the_object_of_the_root_whatever_others_have(value):
    root, *others = [broadcast(lambda rank: value if rank == 1 else None)[rank]
                     for rank in (1, 0, 2)]
    assert root is value
    for other in others:
        same = other() == value() if callable(value) else str(other) == str(value)
        assert same and type(other) is type(value)


def test_objects_of_all_ranks():
    values = {0: None, 1: "x" * 1000, 2: {"own": np.ones(3)}}
    for got in allgather(values.get):
        assert got[:2] == [None, "x" * 1000]
        assert got[2]["own"].tolist() == [1, 1, 1]


def test_no_number_becomes_an_object_of_python(monkeypatch):
    """Bytes are copied as bytes."""
    monkeypatch.setattr(np, "array", lambda numbers: np.asarray(numbers[:1]) if len(numbers) == 1
                        else pytest.fail(f"{len(numbers)} numbers, one by one"))
    large = bytes(1 << 20)
    assert broadcast(lambda rank: large if rank == 1 else None) == [large] * RANKS
    assert allgather(lambda rank: large) == [[large] * RANKS] * RANKS


def test_all_ranks_hear_that_the_root_cannot_pickle_its_object():
    first, root, last = broadcast(lambda rank: Stubborn() if rank == 1 else None)
    assert isinstance(root, ZeroDivisionError)
    for error in first, last:
        assert isinstance(error, RuntimeError)
        assert str(error) == "rank 1 cannot pickle its object: ZeroDivisionError: not this one"


def test_all_ranks_hear_who_cannot_pickle_an_object():
    first, second, last = allgather(lambda rank: Stubborn() if rank > 0 else "fine")
    assert isinstance(second, ZeroDivisionError) and isinstance(last, ZeroDivisionError)
    assert str(first) == "; ".join(
        f"rank {rank} cannot pickle its object: ZeroDivisionError: not this one" for rank in (1, 2))


@pytest.mark.parametrize("act", [broadcast, allgather])
def test_what_is_too_large_is_refused_by_all_ranks(act, monkeypatch):
    monkeypatch.setattr(objects, "MOST_BYTES", 100)
    for error in act(lambda rank: "x" * 200):
        assert isinstance(error, ValueError)
        assert "one call moves at most 100: send them in parts" in str(error)
