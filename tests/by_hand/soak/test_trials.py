"""A few trials whose rounds end by faults and are followed by others; make soak runs many."""

from __future__ import annotations

import input_trials
import pytest
import soak_command
import trials
from selection import rest_by_hand

SEEDS = (77, 149, 222, 376)
GROUPED = ((1, True), (2, True))
INPUT = (1, 2, 3, 4)


@pytest.fixture(scope="session")
def runnable() -> tuple[list[str], list[str]]:
    try:
        return soak_command.built()
    except soak_command.Unusable as problem:
        pytest.skip(str(problem))


def test_they_are_of_all_kinds():
    """What a seed means changes with trials.py."""
    some = [trials.trial(seed) for seed in SEEDS]
    assert {one.framework for one in some} == {*trials.FRAMEWORKS}
    assert {one.controller for one in some} == {*trials.CONTROLLERS}
    faults = [each.fault.kind if each.fault else "" for one in some for each in one.rounds]
    assert {"raise", "shutdown", "killed"} <= {*faults}
    begun_anew = {each.fault.kind for one in some for each in one.rounds[:-1] if each.fault}
    assert {"raise", "shutdown"} <= begun_anew


def test_in_groups_there_are_always_several():
    some = [trials.trial(seed, groups=True) for seed in range(40)]
    assert {one.ranks for one in some} == {2, 3, 4}
    for one in some:
        for each in one.rounds:
            assert each.mode == "topo"
            assert int(each.settings["HOROVOD_OPT_NODE_RANKS"]) < one.ranks
    assert some[0] == trials.trial(0, groups=True) != trials.trial(0)


@pytest.mark.parametrize("seed, groups", [*((seed, False) for seed in SEEDS), *GROUPED])
def test_nothing_is_wrong(seed, groups, runnable, tmp_path):
    one = trials.trial(seed, groups)
    for needed, built in zip((one.framework, one.controller), runnable):
        if needed not in built:
            pytest.skip(f"this Horovod was built without {needed}")
    assert soak_command.perform(one, tmp_path / str(seed))["found"] == []


def test_of_the_input_side_all_kinds_are_killed():
    some = [input_trials.trial(seed) for seed in INPUT]
    assert {run.victim for one in some for run in one.runs} == {"", *input_trials.VICTIMS}
    assert {name for one in some for name in one.batch} == {
        "batch_size", "global_batch_size", "last"}
    assert any(run.ranks != other.ranks for one in some for run, other in zip(
        one.runs, one.runs[1:]))


@pytest.mark.parametrize("seed", rest_by_hand(INPUT, lambda seed: seed in (2, 4)))
def test_nothing_is_lost_when_ranks_are_killed(seed, runnable, tmp_path):
    if "torch" not in runnable[0]:
        pytest.skip("this Horovod was built without torch")
    one = input_trials.trial(seed)
    seen = soak_command.perform(one, tmp_path / str(seed))
    assert seen["found"] == [] and seen["killed"] > 0
