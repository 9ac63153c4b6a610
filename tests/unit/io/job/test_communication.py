"""The ranks' small allgather, over what Horovod offers: upstream's as well as this project's; and
which ranks share a reader."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
from thread_ranks import on_ranks, succeeded

import horovod_opt.io as hio
from horovod_opt.io.errors import InputError
from horovod_opt.io.job import communication, nodes
from horovod_opt.io.job.communication import ALONE, Communication
from horovod_opt.io.job.nodes import Node

# What horovod.torch of upstream's 0.28.1 has of those that the adapter could ask for.
UPSTREAM = ("init", "shutdown", "is_initialized", "size", "rank", "local_size", "local_rank",
            "cross_size", "cross_rank", "allgather_object", "broadcast_object", "mpi_built",
            "gloo_built")


class Upstream(ModuleType):
    """Only these names, as functions; anything else fails the test."""

    def __init__(self, name: str, is_initialized: bool = True, rank: int = 1, size: int = 3):
        super().__init__(name)
        self._values = {"is_initialized": is_initialized, "rank": rank, "size": size}
        self.names: list[str] = []

    def __getattr__(self, name: str):
        if name not in UPSTREAM:
            raise AttributeError(f"upstream's Horovod has no {name}")
        if name == "allgather_object":
            return self._allgather_object
        return lambda: self._values[name]

    def _allgather_object(self, obj, session=None, process_set=None, name=None):
        """Signatures: (obj, name, process_set) in PyTorch, (obj, session, name, ...) in
        TensorFlow, so that only names of arguments are safe."""
        assert session is None and process_set is None
        self.names.append(name)
        return [obj + bytes([rank]) for rank in range(self._values["size"])]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in (*communication.SIZES, "torch"):
        monkeypatch.delenv(name, raising=False)
    for name in [*(f"horovod.{framework}" for framework in communication.FRAMEWORKS), "torch"]:
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("framework", communication.FRAMEWORKS)
def test_upstreams_horovod(monkeypatch, framework):
    hvd = Upstream(f"horovod.{framework}")
    monkeypatch.setitem(sys.modules, hvd.__name__, hvd)
    ranks = communication.find()
    assert (ranks.rank, ranks.size) == (1, 3)
    assert ranks.allgather(b"x") == [b"x\0", b"x\1", b"x\2"]
    assert hvd.names == ["horovod_opt.io"]


def test_channels_of_horovods_ranks_have_names(monkeypatch):
    """Two may be under way at once, and in another order on each rank."""
    hvd = Upstream("horovod.torch")
    monkeypatch.setitem(sys.modules, hvd.__name__, hvd)
    ranks = communication.find()
    assert ranks.channel("7").allgather(b"x") == ranks.channel("8").allgather(b"x")
    assert hvd.names == ["horovod_opt.io.7", "horovod_opt.io.8"]


class World:
    """A process group of the job's."""


def test_torchs_ranks_have_one_group_for_all_data_sets(monkeypatch):
    """PyTorch never gives one back; after the job's group has ended another one is needed."""
    groups = []

    def gather(gathered, data, group):
        gathered[:] = [(data, groups.index(group))] * 2

    distributed = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: 2,
        get_rank=lambda: 1, group=SimpleNamespace(WORLD=World()), all_gather_object=gather,
        new_group=lambda backend: groups.append(World()) or groups[-1])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=distributed))
    for _ in range(3):
        assert communication.find().allgather(b"x") == [(b"x", 0)] * 2
    distributed.group.WORLD = World()
    for _ in range(3):
        assert communication.find().allgather(b"x") == [(b"x", 1)] * 2
    assert len(groups) == 2


def test_of_several_frameworks_the_one_that_is_initialized(monkeypatch):
    monkeypatch.setitem(sys.modules, "horovod.torch", Upstream("horovod.torch", False))
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", Upstream("horovod.tensorflow", rank=2))
    assert communication.find().rank == 2


def test_one_rank_is_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "horovod.torch", Upstream("horovod.torch", rank=0, size=1))
    assert communication.find() is communication.ALONE


@pytest.mark.parametrize("name", communication.SIZES)
def test_a_job_whose_ranks_have_not_met(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "horovod.torch", Upstream("horovod.torch", False))
    monkeypatch.setenv(name, "4")
    with pytest.raises(InputError, match=f"{name}=4, but neither Horovod nor torch.distributed is"):
        communication.find()
    monkeypatch.setenv(name, "1")
    assert communication.find() is communication.ALONE


def test_a_rank_alone():
    assert nodes.find(ALONE) == Node((0,), 0)


def test_ranks_of_one_machine():
    assert succeeded(on_ranks(3, nodes.find)) == [Node((0, 1, 2), rank) for rank in range(3)]


def test_ranks_of_several_places():
    def find(ranks: Communication) -> Node:
        return nodes.find(replace(ranks, place="ab"[ranks.rank % 2]))

    assert succeeded(on_ranks(4, find)) == [
        Node((0, 2), 0), Node((1, 3), 0), Node((0, 2), 1), Node((1, 3), 1)]


@pytest.mark.parametrize("option", ["alone", "elastic"])
def test_ranks_that_would_not_meet(option):
    with pytest.raises(hio.InputError, match=f"{option}=True with ranks.*remedy"):
        hio.open("anything", ranks=ALONE, **{option: True})
