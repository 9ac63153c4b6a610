"""Gloo's thread sleeps until something happens where it is told to, as in mode topo, and is woken
when an event is taken away or it has to end: gloo_loop.cc."""

from __future__ import annotations

import subprocess

import pytest
from against_horovod import HERE, compile_with_gloo

PLAIN, THREAD = (), ("-fsanitize=thread", "-g1")


@pytest.fixture(scope="module", params=[PLAIN, THREAD], ids=["plain", "thread"])
def counts(request, tmp_path_factory) -> dict[str, int]:
    """Of events, by what it is."""
    folder = tmp_path_factory.mktemp("gloo")
    program = compile_with_gloo(HERE / "gloo_loop.cc", folder / "gloo_loop", *request.param)
    # ThreadSanitizer before GCC 14 does not start where addresses are randomized by much.
    run = subprocess.run(["setarch", "-R", str(program)], check=False, timeout=120, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.returncode == 0, run.stderr
    return {what: int(number) for what, number in map(str.split, run.stdout.splitlines())}


def test_does_not_look_while_nothing_happens(counts):
    assert counts["idle"] == 0


def test_is_woken_when_an_event_is_taken_away(counts):
    assert counts["handled"] == 500


def test_is_woken_to_end(counts):
    assert counts["ended"] == 200
