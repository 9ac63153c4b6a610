"""Gloo's thread sleeps until something happens where it is told to, as in mode topo, and is woken
when an event is taken away or it has to end: gloo_loop.cc. What its reduce-scatter sends is neither
written to nor given back before it has left, however late: gloo_reduce_scatter.cc."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from against_horovod import HERE, compile_with_gloo

PLAIN, THREAD = (), ("-fsanitize=thread", "-g1")
SEED, ROUNDS = "20261130", "60"


def lines_of(folder: Path, name: str, options: tuple[str, ...], *arguments: str) -> list[list[str]]:
    """What the program says, in words."""
    program = compile_with_gloo(HERE / f"{name}.cc", folder / name, *options)
    # ThreadSanitizer before GCC 14 does not start where addresses are randomized by much.
    run = subprocess.run(["setarch", "-R", str(program), *arguments], check=False, timeout=240,
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.returncode == 0, run.stdout + run.stderr
    return [line.split() for line in run.stdout.splitlines()]


@pytest.fixture(scope="module", params=[PLAIN, THREAD], ids=["plain", "thread"])
def counts(request, tmp_path_factory) -> dict[str, int]:
    """Of events, by what it is."""
    lines = lines_of(tmp_path_factory.mktemp("gloo"), "gloo_loop", request.param)
    return {what: int(number) for what, number in lines}


def test_does_not_look_while_nothing_happens(counts):
    assert counts["idle"] == 0


def test_is_woken_when_an_event_is_taken_away(counts):
    assert counts["handled"] == 500


def test_is_woken_to_end(counts):
    assert counts["ended"] == 200


@pytest.fixture(scope="module")
def wrong(tmp_path_factory) -> dict[int, list[int]]:
    """By number of ranks: wrong results, and messages whose memory was given back."""
    lines = lines_of(tmp_path_factory.mktemp("gloo"), "gloo_reduce_scatter", THREAD, SEED, ROUNDS)
    return {int(ranks): list(map(int, numbers)) for ranks, *numbers in lines}


@pytest.mark.parametrize("ranks", range(2, 10))
def test_late_messages_say_what_was_sent(wrong, ranks):
    assert wrong[ranks] == [0, 0]
