"""What tests/by_hand/soak makes of a seed, of its arguments, and of how a trial ended."""

from __future__ import annotations

import model
import numpy as np
import pytest
import soak_command
import trials
from programs import Branches, Calls, Collective, Function, Training, Uneven
from trials import Fault, Round, Trial
from verdict import problems

MANY = [trials.trial(seed) for seed in range(300)]
SHUT_DOWN = "UnknownError: Horovod has been shut down."


def values(of) -> set:
    return {value for one in MANY for value in of(one)}


def test_a_seed_is_a_trial():
    assert [trials.trial(seed) for seed in range(300)] == MANY
    assert len({one.describe() for one in MANY}) == len(MANY)


def test_every_kind_of_trial_is_reachable():
    assert values(lambda one: [(one.framework, one.controller, one.ranks)]) == {
        (framework, controller, ranks) for framework in trials.FRAMEWORKS
        for controller in trials.CONTROLLERS for ranks in trials.RANKS}
    assert values(lambda one: [each.mode for each in one.rounds]) == {*trials.MODES}
    assert values(lambda one: one.settings) == {*trials.UPSTREAM}
    assert values(lambda one: [name for each in one.rounds for name in each.settings]) >= {
        name for settings in trials.OF_MODE.values() for name in settings}
    assert values(lambda one: [each.fault.kind for each in one.rounds if each.fault]) == {
        *trials.HARMLESS, *trials.ENDS_ROUND, *trials.ENDS_JOB, *trials.REFUSED}
    phases = [phase for one in MANY for each in one.rounds for phase in each.phases]
    assert {type(phase) for phase in phases} == {Calls, Uneven, Training}
    assert {len(phase.threads) for phase in phases if isinstance(phase, Calls)} == {1, 2, 3}


def test_faults_are_where_the_program_comes_by():
    for one in MANY:
        for number, each in enumerate(one.rounds):
            if each.fault is None:
                continue
            assert one.ranks > 1 and each.fault.rank < one.ranks
            turns = trials.turns_of(each.phases[each.fault.phase], each.fault.rank)
            assert each.fault.turn < turns
            if each.fault.kind in trials.ENDS_JOB:
                assert number == len(one.rounds) - 1


def test_the_model():
    sums = Function((Collective("allreduce", "float32", 2),
                     Collective("allgather", "int32", 1, sources=(0,)),
                     Collective("allreduce", "float32", 1, "Max", 2.0, sometimes=True)))
    # Rank 0 contributes 1, 2 and rank 1 contributes 2, 3.
    first = model.results(sums, [0.0, 1.0], False, [0, 1])
    assert first[0][0].tolist() == first[1][0].tolist() == [3, 5]
    assert first[0][1].tolist() == [1 + 8 % 3, 1 + 9 % 3, 1 + 10 % 3]
    assert (first[0][2].tolist(), first[1][2].tolist()) == ([1], [2])
    taken = model.results(sums, [0.0, 1.0], True, [0, 1])
    assert taken[0][2].tolist() == taken[1][2].tolist() == [4]
    alone = model.results(sums, [0.0, 1.0], False, [1])
    assert list(alone) == [1] and alone[1][0].tolist() == [2, 3]


def test_the_model_of_training():
    about = Training((1, 1), Branches(1, 0, 2), (2, 1), 1, "Average", 1.0, 1, 0, "none", None)
    weights = model.Weights(about, 2)
    weights.step(0, [0, 1])  # the second parameter is used in odd steps only if 1 + step is odd
    assert [float(w[0]) for w in weights.of_rank[0]] == [-1.5, -2.5]
    weights.step(1, [0])
    assert [float(w[0]) for w in weights.of_rank[0]] == [-2.5, -2.5]
    assert [float(w[0]) for w in weights.of_rank[1]] == [-1.5, -2.5]
    weights.broadcast()
    assert np.array_equal(weights.of_rank[1], weights.of_rank[0])


def seen(**changed) -> dict:
    return {"checked": 1, "different": [], "error": "", "refused": "", "planned": 0, **changed}


def found(reports: dict[int, list], fault: str = "", mode: str = "topo", code: int = 0,
          hung: bool = False, survivors=()) -> list[str]:
    """Of a trial of two ranks and one round, in which rank 1 is at fault."""
    one = Round(mode, {}, (), -1, Fault(fault, 1, 0, 0, 0) if fault else None)
    trial = Trial(1, "torch", "mpi", 2, {}, (one,))
    return problems(trial, code, hung, survivors, {
        rank: {"rounds": rounds} for rank, rounds in reports.items()})


WELL = {0: [seen()], 1: [seen()]}


@pytest.mark.parametrize("how", [
    {"reports": WELL},
    {"reports": WELL, "fault": "late"},
    {"reports": {0: [seen(error=SHUT_DOWN)], 1: [seen(error=SHUT_DOWN)]}, "fault": "never"},
    {"reports": WELL, "fault": "never"},
    {"reports": {0: [seen(error=SHUT_DOWN)],
                 1: [seen(error="ScriptError: a bug in the training script")]}, "fault": "raise"},
    {"reports": {0: [seen(error=SHUT_DOWN)]}, "fault": "killed", "code": 1},
    {"reports": {0: [seen(error="UnknownError: [../gloo/transport/tcp/pair.cc:1] Read error")]},
     "fault": "killed", "code": 1},
    {"reports": {}, "fault": "killed", "code": 137},
    {"reports": {0: [seen(refused="too few cores")], 1: [seen(refused="too few cores")]},
     "mode": "topo+scp"},
    {"reports": {0: [seen(refused="too few cores")], 1: [seen(refused="too few cores")]},
     "mode": "scp", "fault": "killed"},
    {"reports": {0: [seen(refused="they differ")], 1: [seen(refused="they differ")]},
     "fault": "disagree"},
])
def test_all_is_well(how):
    assert found(**how) == []


@pytest.mark.parametrize("how, problem", [
    ({"reports": WELL, "hung": True}, "hangs"),
    ({"reports": WELL, "survivors": ["17 python"]}, "outlives the job: 17 python"),
    ({"reports": WELL, "code": 3}, "exit status 3"),
    ({"reports": WELL, "fault": "killed"}, "exit status 0"),
    ({"reports": {0: [seen()]}}, "rank 1: no report of round 0"),
    ({"reports": {0: [seen()], 1: [seen(different=["x"])]}}, "rank 1: round 0: differs: x"),
    ({"reports": {0: [seen(error="OSError: y")], 1: [seen()]}}, "rank 0: round 0: OSError: y"),
    ({"reports": WELL, "fault": "raise"}, "rank 0: round 0: after raise on rank 1: no error"),
    ({"reports": {0: [seen(error="OSError: y")]}, "fault": "killed", "code": 1},
     "after killed on rank 1: OSError: y"),
    ({"reports": {0: [seen(error="ValueError: Process set has not been registered")],
                  1: [seen(error=SHUT_DOWN)]}, "fault": "shutdown"},
     "rank 0: round 0: after shutdown on rank 1: ValueError: Process set"),
    ({"reports": {0: [seen(error=SHUT_DOWN)],
                  1: [seen(error="ValueError: Handle 23 was not created")]}, "fault": "shutdown"},
     "rank 1: round 0: after shutdown on rank 1: ValueError: Handle 23"),
    ({"reports": WELL, "fault": "disagree"}, "settings that differ are not refused"),
    ({"reports": {0: [seen(refused="z")], 1: [seen(refused="z")]}}, "refused: z"),
    ({"reports": {0: [seen(refused="z")], 1: [seen()]}, "mode": "scp"}, "on some ranks only"),
])
def test_something_is_wrong(how, problem):
    assert any(problem in text for text in found(**how))


def test_arguments():
    arguments = soak_command.parse_arguments(["--minutes", "0.5", "--seed", "7"])
    assert (arguments.minutes, arguments.seed, arguments.replay) == (0.5, 7, None)
    assert 0 <= soak_command.parse_arguments([]).seed < soak_command.SEEDS
    assert soak_command.parse_arguments(["--replay", "9"]).replay == 9


@pytest.mark.parametrize("argv, problem", [
    (["--minutes", "0"], "'0' is not a number of minutes above 0"),
    (["--minutes", "nan"], "not a number of minutes above 0"),
    (["--seed", "-1"], "not a whole number below 4294967296"),
    (["--seed", "4294967296"], "not a whole number below 4294967296"),
    (["--replay", "x"], "'x' is not a whole number"),
    (["--seed", "1", "--replay", "1"], "not allowed with argument"),
    (["--hours", "1"], "unrecognized arguments"),
])
def test_bad_arguments_are_one_line_and_status_2(argv, problem, capsys):
    with pytest.raises(SystemExit) as error:
        soak_command.parse_arguments(argv)
    assert error.value.code == 2
    assert problem in capsys.readouterr().err.splitlines()[-1]


def test_trials_without_what_was_not_built():
    chosen = soak_command.trials_from(5, False, ["torch"], ["gloo"])
    some = [next(chosen) for _ in range(5)]
    assert {(one.framework, one.controller) for one in some} == {("torch", "gloo")}
    assert [one.seed for one in some] == sorted(one.seed for one in some)


def test_an_interrupted_run_keeps_what_has_ended(tmp_path, monkeypatch):
    def perform(one, folder):
        if one.seed == 7:
            raise KeyboardInterrupt
        return {"seed": one.seed, "found": ["hangs"] * (one.seed == 6), "results": 1,
                "planned_iterations": 0}

    monkeypatch.setattr(soak_command, "perform", perform)
    file = tmp_path / "found" / "soak.jsonl"
    arguments = soak_command.parse_arguments(["--seed", "5", "--json", str(file)])
    chosen = soak_command.trials_from(5, False, trials.FRAMEWORKS, trials.CONTROLLERS)
    with pytest.raises(KeyboardInterrupt):
        soak_command.soak(arguments, chosen, soak_command.Console(quiet=True))
    assert [line[:10] for line in file.read_text().splitlines()] == ['{"seed": 5', '{"seed": 6']
