"""A few trials whose rounds end by faults and are followed by others; make soak runs many."""

from __future__ import annotations

import pytest
import soak_command
import trials

SEEDS = (77, 149, 222, 376)


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


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_wrong(seed, runnable, tmp_path):
    one = trials.trial(seed)
    for needed, built in zip((one.framework, one.controller), runnable):
        if needed not in built:
            pytest.skip(f"this Horovod was built without {needed}")
    assert soak_command.perform(one, tmp_path / str(seed))["found"] == []
