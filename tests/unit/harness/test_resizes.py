"""What tests/by_hand/resizes takes for a training that lost something."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import pytest
from jobs import Job

RESIZES = Path(__file__).parents[2] / "by_hand" / "resizes"
KILLED, FAILED = "Exit code: 137\n", "Exit code: 1\n"


@pytest.fixture
def command(monkeypatch):
    monkeypatch.syspath_prepend(RESIZES)
    monkeypatch.syspath_prepend(RESIZES.parents[1] / "unit" / "io" / "formats")
    import resizes_command

    return resizes_command


@pytest.fixture
def train(command, monkeypatch, tmp_path):
    """A training whose jobs leave these results, or fail with these words."""
    def train(*ends: dict | str) -> tuple[dict, dict[str, int]]:
        left = list(ends)

        def run_job(folder: Path, *_: object, **__: object) -> Job:
            end = left.pop(0)
            (folder / "output.txt").write_text("")
            if isinstance(end, dict):
                (folder / "result").write_text(json.dumps(end))
            return Job(folder, int(isinstance(end, str)), str(end), False)

        monkeypatch.setattr(command, "run_job", run_job)
        options = argparse.Namespace(framework="torch", mode="topo", most=3)
        training = command.Training(tmp_path / "job", tmp_path, options, random.Random(1), 2)
        return training.run(), dict(training.events)

    return train


@pytest.fixture
def result(command) -> dict:
    return {"step": command.STEPS, "seen": [command.EPOCHS] * command.SAMPLES}


def test_all_is_there(train, result):
    assert train(result) == (result, {})


def test_a_job_without_a_survivor_is_followed_by_another_one(train, result):
    assert train(KILLED, KILLED + KILLED, result) == (result, {"nobody left": 2})


@pytest.mark.parametrize("words", [FAILED, KILLED + FAILED, ""])
def test_a_job_that_failed_is_a_finding(command, train, result, words):
    with pytest.raises(command.Lost, match="job 0 failed"):
        train(words, result)


@pytest.mark.parametrize("times", [-1, 1])
def test_a_sample_that_is_missing_or_comes_twice_is_a_finding(command, train, result, times):
    result["seen"][100] += times
    with pytest.raises(command.Lost, match=f"{command.EPOCHS + times}: 1"):
        train(result)


def test_steps_are_counted(command, train, result):
    result["step"] += 1
    with pytest.raises(command.Lost, match=f"{command.STEPS + 1} steps"):
        train(result)


@pytest.mark.parametrize("loss, is_found", [(1.0, False), (1.02, False), (1.04, True),
                                            (0.96, True)])
def test_losses_are_compared(command, loss, is_found):
    losses = {"undisturbed": [0.99, 1.0, 1.01], "disturbed": [1.0, loss]}
    assert len(command.too_far(losses)) == is_found
