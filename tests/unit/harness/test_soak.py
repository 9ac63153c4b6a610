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


def values(choose) -> set:
    return {value for trial in MANY for value in choose(trial)}


def test_a_seed_is_a_trial():
    assert [trials.trial(seed) for seed in range(300)] == MANY
    assert len({trial.describe() for trial in MANY}) == len(MANY)


def test_every_kind_of_trial_is_reachable():
    assert values(lambda trial: [(trial.framework, trial.controller, trial.ranks)]) == {
        (framework, controller, ranks) for framework in trials.FRAMEWORKS
        for controller in trials.CONTROLLERS for ranks in trials.RANKS}
    assert values(lambda trial: [part.mode for part in trial.rounds]) == {*trials.MODES}
    assert values(lambda trial: trial.settings) == {*trials.UPSTREAM}
    assert values(lambda trial: [name for part in trial.rounds for name in part.settings]) >= {
        name for settings in trials.OF_MODE.values() for name in settings}
    assert values(lambda trial: [part.fault.kind for part in trial.rounds if part.fault]) == {
        *trials.HARMLESS, *trials.ENDS_ROUND, *trials.ENDS_JOB, *trials.REFUSED}
    phases = [phase for trial in MANY for part in trial.rounds for phase in part.phases]
    assert {type(phase) for phase in phases} == {Calls, Uneven, Training}
    assert {len(phase.threads) for phase in phases if isinstance(phase, Calls)} == {1, 2, 3}


def test_faults_are_where_the_program_comes_by():
    for trial in MANY:
        for number, part in enumerate(trial.rounds):
            if part.fault is None:
                continue
            assert trial.ranks > 1 and part.fault.rank < trial.ranks
            turns = trials.turns_of(part.phases[part.fault.phase], part.fault.rank)
            assert part.fault.turn < turns
            if part.fault.kind in trials.ENDS_JOB:
                assert number == len(trial.rounds) - 1


def test_the_model():
    sums = Function((Collective("allreduce", "float32", 2),
                     Collective("allgather", "int32", 1, sources=(0,)),
                     Collective("allreduce", "float32", 1, "Max", 2.0, sometimes=True)))
    # Rank 0 contributes 1, 2 and rank 1 contributes 2, 3.
    first = model.results(sums, [0.0, 1.0], False, [0, 1])
    assert first[0][0].tolist() == first[1][0].tolist() == [3, 5]
    assert first[0][1].tolist() == [1 + 8 % 3, 1 + 9 % 3, 1 + 10 % 3]
    assert (first[0][2].tolist(), first[1][2].tolist()) == ([1], [2])
    results = model.results(sums, [0.0, 1.0], True, [0, 1])
    assert results[0][2].tolist() == results[1][2].tolist() == [4]
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


def report(**changed) -> dict:
    return {"checked": 1, "different": [], "error": "", "refused": "", "planned": 0, "kinds": {},
            "digests": {}, **changed}


def judge(reports: dict[int, list], fault: str = "", mode: str = "topo", code: int = 0,
          hung: bool = False, survivors=()) -> list[str]:
    """Of a trial of two ranks and one round, in which rank 1 is at fault."""
    part = Round(mode, {}, (), -1, Fault(fault, 1, 0, 0, 0) if fault else None)
    trial = Trial(1, "torch", "mpi", 2, {}, (part,))
    return problems(trial, code, hung, survivors, {
        rank: {"rounds": rounds} for rank, rounds in reports.items()})


WELL = {0: [report()], 1: [report()]}


@pytest.mark.parametrize("how", [
    {"reports": WELL},
    {"reports": WELL, "fault": "late"},
    {"reports": {0: [report(error=SHUT_DOWN)], 1: [report(error=SHUT_DOWN)]}, "fault": "never"},
    {"reports": WELL, "fault": "never"},
    {"reports": {0: [report(error=SHUT_DOWN)],
                 1: [report(error="ScriptError: a bug in the training script")]}, "fault": "raise"},
    {"reports": {0: [report(error=SHUT_DOWN)]}, "fault": "killed", "code": 1},
    {"reports": {0: [report(error="UnknownError: [../gloo/transport/tcp/pair.cc:1] Read error")]},
     "fault": "killed", "code": 1},
    {"reports": {}, "fault": "killed", "code": 137},
    {"reports": {0: [report(refused="too few cores")], 1: [report(refused="too few cores")]},
     "mode": "topo+scp"},
    {"reports": {0: [report(refused="too few cores")], 1: [report(refused="too few cores")]},
     "mode": "scp", "fault": "killed"},
    {"reports": {0: [report(refused="they differ")], 1: [report(refused="they differ")]},
     "fault": "disagree"},
])
def test_all_is_well(how):
    assert judge(**how) == []


@pytest.mark.parametrize("how, problem", [
    ({"reports": WELL, "hung": True}, "hangs"),
    ({"reports": WELL, "survivors": ["17 python"]}, "outlives the job: 17 python"),
    ({"reports": WELL, "code": 3}, "exit status 3"),
    ({"reports": WELL, "fault": "killed"}, "exit status 0"),
    ({"reports": {0: [report()]}}, "rank 1: no report of round 0"),
    ({"reports": {0: [report()], 1: [report(different=["x"])]}}, "rank 1: round 0: differs: x"),
    ({"reports": {0: [report(error="OSError: y")], 1: [report()]}}, "rank 0: round 0: OSError: y"),
    ({"reports": WELL, "fault": "raise"}, "rank 0: round 0: after raise on rank 1: no error"),
    ({"reports": {0: [report(error="OSError: y")]}, "fault": "killed", "code": 1},
     "after killed on rank 1: OSError: y"),
    ({"reports": {0: [report(error="ValueError: Process set has not been registered")],
                  1: [report(error=SHUT_DOWN)]}, "fault": "shutdown"},
     "rank 0: round 0: after shutdown on rank 1: ValueError: Process set"),
    ({"reports": {0: [report(error=SHUT_DOWN)],
                  1: [report(error="ValueError: Handle 23 was not created")]}, "fault": "shutdown"},
     "rank 1: round 0: after shutdown on rank 1: ValueError: Handle 23"),
    ({"reports": WELL, "fault": "disagree"}, "settings that differ are not refused"),
    ({"reports": {0: [report(refused="z")], 1: [report(refused="z")]}}, "refused: z"),
    ({"reports": {0: [report(refused="z")], 1: [report()]}, "mode": "scp"}, "on some ranks only"),
])
def test_something_is_wrong(how, problem):
    assert any(problem in text for text in judge(**how))


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
    arguments = soak_command.parse_arguments(["--seed", "5"])
    chosen = soak_command.trials_from(arguments, ["torch"], ["gloo"])
    some = [next(chosen) for _ in range(5)]
    assert {(trial.framework, trial.controller) for trial in some} == {("torch", "gloo")}
    assert [trial.seed for trial in some] == sorted(trial.seed for trial in some)


def test_an_interrupted_run_keeps_what_has_ended(tmp_path, monkeypatch):
    def perform(trial, folder):
        if trial.seed == 7:
            raise KeyboardInterrupt
        return {"seed": trial.seed, "found": ["hangs"] * (trial.seed == 6), "results": 1,
                "planned_iterations": 0, "kinds": {}}

    monkeypatch.setattr(soak_command, "perform", perform)
    file = tmp_path / "found" / "soak.jsonl"
    arguments = soak_command.parse_arguments(["--seed", "5", "--json", str(file)])
    chosen = soak_command.trials_from(arguments, trials.FRAMEWORKS, trials.CONTROLLERS)
    with pytest.raises(KeyboardInterrupt):
        soak_command.soak(arguments, chosen, soak_command.Console(quiet=True))
    assert [line[:10] for line in file.read_text().splitlines()] == ['{"seed": 5', '{"seed": 6']
