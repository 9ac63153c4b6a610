"""Which ranks share a reader."""

from __future__ import annotations

from dataclasses import replace

import pytest
from thread_ranks import on_ranks, succeeded

import horovod_opt.io as hio
from horovod_opt.io.job import nodes
from horovod_opt.io.job.communication import ALONE, Communication
from horovod_opt.io.job.nodes import Node


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
