"""What the ranks of a job must report, in the mode of tests/by_hand/ecosystem/run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from horovod_opt import cpu_set

MODE = "HOROVOD_OPT_MODE"
# Where ecosystem_command.py keeps what horovodrun gives in mode off: FRAMEWORK-RANKS.json.
REFERENCES = "ECOSYSTEM_REFERENCES"
FRAMEWORKS = ("torch", "tensorflow")
MIN_ACCURACY = {1: 0.8, 2: 0.85}  # by ranks: one sees half as many images
START_SECONDS = 100  # until all workers of a job have started


def take_mode(monkeypatch: pytest.MonkeyPatch) -> str:
    """The mode, taken out of the environment: what is started from now on does not inherit it."""
    mode = os.environ[MODE]
    monkeypatch.delenv(MODE)
    return mode


def mode_variables(framework: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment argument of a job. With PyTorch it has the mode, with TensorFlow the process
    that starts the job has it."""
    if framework == "torch":
        return {MODE: mode}
    monkeypatch.setenv(MODE, mode)
    return {}


def ranks_for(mode: str) -> int:
    """Two, or one where scp would need more cores than there are."""
    cores = cpu_set.count_cores(cpu_set.allowed_cpus())
    return 2 if "scp" not in mode or cores >= 4 else 1


def check(reports: list[dict], framework: str, mode: str, controller: str) -> None:
    """Raises AssertionError unless all ranks had the mode, and the weights of the reference."""
    ranks = len(reports)
    reference = json.loads(
        Path(os.environ[REFERENCES], f"{framework}-{ranks}.json").read_text())
    assert sorted(report["rank"] for report in reports) == list(range(ranks))
    assert {report["size"] for report in reports} == {ranks}
    assert {report["controller"] for report in reports} == {controller}
    assert {report["mode"] for report in reports} <= (
        {"topo", "topo+scp"} if mode == "auto" else {mode})
    assert {report["weights"] for report in reports} == {reference["weights"]}
    assert reference["accuracy"] >= MIN_ACCURACY[ranks]
    if "topo" in reports[0]["mode"]:
        assert all("active" in report["plans"] for report in reports), reports
        assert [report["steady_rounds"] for report in reports] == [0] * ranks
