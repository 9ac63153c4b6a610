"""A few trials whose rounds end by faults and are followed by others; make soak runs many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import permutations

import bits
import input_model
import input_trials
import input_verdict
import programs
import pytest
import soak_command
import trials
from drawing import DEFAULT_KINDS, KINDS
from gloo_ranks import GlooRanks
from selection import rest_by_hand

SEEDS = (997, 1096, 2119, 2995)
GROUPED = ((1, True), (2, True))
INPUT = (4, 159, 119, 176)


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


def test_all_kinds_are_drawn_often_and_only_those():
    of_default = [counts_of(seed, DEFAULT_KINDS) for seed in range(60)]
    total = sum(of_default, Counter())
    assert {*total} == {*DEFAULT_KINDS}
    assert min(total.values()) >= 60, total  # once a trial
    for kind in KINDS:
        assert {*sum((counts_of(seed, [kind]) for seed in range(60)), Counter())} == {kind}


def counts_of(seed: int, kinds: Sequence[str]) -> Counter[str]:
    """Of the collectives, and of trainings, that have something of a kind."""
    counts: Counter[str] = Counter()
    for round_ in trials.trial(seed, kinds=kinds).rounds:
        for phase in round_.phases:
            counts["leaves"] += len(trials.leaves_of(phase))
            if isinstance(phase, programs.Calls):
                functions = phase.functions
            elif isinstance(phase, programs.Uneven):
                functions = (phase.function,)
            else:
                counts["special"] += bool(phase.bits)
                counts["layouts"] += bool(phase.layouts or phase.gradients)
                functions = (phase.beside,) if phase.beside else ()
            for function in functions:
                counts.update(kind for about in function.collectives
                              for kind in programs.kinds_of(about))
    return +counts


@pytest.mark.parametrize("dtype", programs.FLOATS)
@pytest.mark.parametrize("op", ["Sum", "Average", "Product", "Min", "Max"])
def test_special_values_have_one_result_in_every_order(op, dtype):
    about = programs.Collective("allreduce", dtype, 300, op, bits=7)
    for ranks in (2, 4):
        parts = [bits.given(about, rank, range(ranks), 300, 1) for rank in range(ranks)]
        right = bits.reduced(op, dtype, parts)
        for order in permutations(parts):
            other = bits.reduced(op, dtype, order)
            assert (other.nans == right.nans).all() and (other.words == right.words).all()
        assert right.nans.any() and not right.nans.all()
        wrong = right.words ^ 1
        numbers = ~right.nans
        assert len(right.differences(wrong, planned=True)) >= numbers.sum()


@pytest.mark.parametrize("seed, groups", [*((seed, False) for seed in SEEDS), *GROUPED])
def test_nothing_is_wrong(seed, groups, runnable, tmp_path):
    trial = trials.trial(seed, groups)
    for needed, built in zip((trial.framework, trial.controller), runnable):
        if needed not in built:
            pytest.skip(f"this Horovod was built without {needed}")
    assert soak_command.perform(trial, tmp_path / str(seed))["found"] == []


def test_of_the_input_side_all_kinds_are_drawn():
    """By the tests' few, whoever is killed; by many, all there are."""
    few = [input_trials.trial(seed) for seed in INPUT]
    assert {run.victim for trial in few for run in trial.runs} == {"", *input_trials.VICTIMS}
    assert any(run.ranks != next_run.ranks for trial in few for run, next_run in zip(
        trial.runs, trial.runs[1:]))
    assert {trial.data.format for trial in few} == {*input_model.FORMATS}
    assert {"ordered", None} == {trial.options.get("order") for trial in few}
    assert any(run.groups for trial in few for run in trial.runs)
    assert any(trial.data.packed for trial in few) and any(trial.data.choose for trial in few)
    many = [input_trials.trial(seed) for seed in range(300)]
    assert {(trial.data.format, trial.data.packed) for trial in many} == {
        (kind, packed) for kind, packings in input_model.PACKINGS.items() for packed in packings}
    assert {name for trial in many for name in trial.batch} == {
        "batch_size", "global_batch_size", "last"}
    assert {str(trial.data.choose).strip("[")[:2] for trial in many} >= {"", "bo", "nu", "'!", "'*"}
    assert {trial.data.lacking for trial in many} == {"raise", "skip", "keep"}
    for trial in many:
        assert sum(map(int, trial.data.expected().values())) >= max(
            len(run.shares) for run in trial.runs)


@pytest.mark.parametrize("kind", ["all", "weights", "shares", "choose", "lacking"])
def test_the_model_of_the_input_side_finds_what_is_wrong(kind):
    data = {"weights": {"weights": [1, 2, 0, 3] * 5}, "shares": {"shares": (2, 1)},
            "choose": {"choose": "numbers", "chosen": range(3, 18)},
            "lacking": {"lacks": [4, 9], "lacking": "skip"}}.get(kind, {})
    data = input_model.DataSet(input_model.TAR, "", 20, 8, **data)
    right = Counter({number: round(times) for number, times in data.expected().items()})
    assert data.wrong_counts(right) == []
    for number in range(20):
        for step in (1, -1):
            wrong = Counter({**right, number: right[number] + step})
            if min(wrong.values()) >= 0:
                assert data.wrong_counts(+wrong), (number, step)


def test_steps_that_differ_are_wrong():
    line = {"epoch": 0, "start": 0, "end": 4, "numbers": [3, 1]}
    other = {**line, "numbers": [0, 2]}
    for reports, groups, problem in (
            ([[line], [other]], [[0], [1]], None),
            ([[line], [line]], [[0, 1]], None),
            ([[line], [{**line, "numbers": [1, 3]}]], [[0, 1]], "of a group had different"),
            ([[line], []], [[0], [1]], "shares of [2] samples"),
            ([[line], [{**other, "numbers": [0, 2, 5, 6]}]], [[0], [1]], "shares of [2, 4]")):
        shares, problems = input_verdict.check_shares(groups, reports, (0, 0), (0, 4))
        assert len(problems) == (problem is not None) and (problem or "") in str(problems)
        assert sum(len(share.numbers) for share in shares) >= 2
    assert input_verdict.check_shares([[0]], [[line]], (0, 4), (1, 0)) == ([], [])


@pytest.mark.parametrize("has_taken", [False, True])
def test_a_process_that_outlives_its_rank_holds_nobody_up(tmp_path, monkeypatch, has_taken):
    """One that has taken no sample is PyTorch's, and only ended."""
    monkeypatch.setattr(input_trials, "LEFT_SECONDS", 0.5)
    program = tmp_path / "program.py"
    program.write_text("import os, pathlib, signal, sys, time\n"
                       "child = os.fork()\n"
                       "if child == 0:\n"
                       "    time.sleep(600)\n"
                       f"pathlib.Path('worker-%d' % (child if {has_taken} else 0)).touch()\n"
                       "os.kill(os.getpid(), signal.SIGKILL)\n")
    end, = GlooRanks(tmp_path, program, ranks=1).wait(60)
    assert end.was_killed
    problems = list(input_trials._survivors(tmp_path))
    assert len(problems) == has_taken
    assert not list(input_trials._survivors(tmp_path))


@pytest.mark.parametrize("seed", rest_by_hand(INPUT, lambda seed: seed in INPUT[:2]))
def test_nothing_is_lost_when_ranks_are_killed(seed, runnable, tmp_path):
    if "torch" not in runnable[0]:
        pytest.skip("this Horovod was built without torch")
    trial = input_trials.trial(seed)
    outcome = soak_command.perform(trial, tmp_path / str(seed))
    assert outcome["found"] == [] and outcome["killed"] > 0
