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
    assert {trial.framework for trial in some} == {*trials.FRAMEWORKS}
    assert {trial.controller for trial in some} == {*trials.CONTROLLERS}
    faults = [round_.fault.kind if round_.fault else ""
              for trial in some for round_ in trial.rounds]
    assert {"raise", "shutdown", "killed"} <= {*faults}
    begun_anew = {round_.fault.kind
                  for trial in some for round_ in trial.rounds[:-1] if round_.fault}
    assert {"raise", "shutdown"} <= begun_anew


def test_in_groups_there_are_always_several():
    some = [trials.trial(seed, groups=True) for seed in range(40)]
    assert {trial.ranks for trial in some} == {2, 3, 4}
    for trial in some:
        for round_ in trial.rounds:
            assert round_.mode == "topo"
            assert int(round_.settings["HOROVOD_OPT_NODE_RANKS"]) < trial.ranks
    assert some[0] == trials.trial(0, groups=True) != trials.trial(0)


@pytest.mark.parametrize("seed, groups", [*((seed, False) for seed in SEEDS), *GROUPED])
def test_nothing_is_wrong(seed, groups, runnable, tmp_path):
    trial = trials.trial(seed, groups)
    for needed, built in zip((trial.framework, trial.controller), runnable):
        if needed not in built:
            pytest.skip(f"this Horovod was built without {needed}")
    assert soak_command.perform(trial, tmp_path / str(seed))["found"] == []


def test_of_the_input_side_all_kinds_are_killed():
    some = [input_trials.trial(seed) for seed in INPUT]
    assert {run.victim for trial in some for run in trial.runs} == {"", *input_trials.VICTIMS}
    assert {name for trial in some for name in trial.batch} == {
        "batch_size", "global_batch_size", "last"}
    assert any(run.ranks != next_run.ranks for trial in some for run, next_run in zip(
        trial.runs, trial.runs[1:]))


@pytest.mark.parametrize("seed", rest_by_hand(INPUT, lambda seed: seed in (2, 4)))
def test_nothing_is_lost_when_ranks_are_killed(seed, runnable, tmp_path):
    if "torch" not in runnable[0]:
        pytest.skip("this Horovod was built without torch")
    trial = input_trials.trial(seed)
    outcome = soak_command.perform(trial, tmp_path / str(seed))
    assert outcome["found"] == [] and outcome["killed"] > 0
