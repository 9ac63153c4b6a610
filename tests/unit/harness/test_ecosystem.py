"""What tests/by_hand/ecosystem takes for a job that went well, and what it refuses to run."""

from __future__ import annotations

import json
import shutil
import sys

import ecosystem_command
import job_report
import pytest
from ecosystem_suites import HERE, JOBS, UPSTREAM
from environment import Unusable
from outcomes import Outcome, Run


@pytest.fixture
def reports(monkeypatch, tmp_path):
    """Two ranks in mode topo, as they should be."""
    monkeypatch.setenv(job_report.REFERENCES, str(tmp_path))
    (tmp_path / "torch-2.json").write_text(json.dumps({"weights": "abc", "accuracy": 0.97}))
    return [{"rank": rank, "size": 2, "mode": "topo", "controller": "gloo", "weights": "abc",
             "steady_rounds": 0, "plans": ["resting", "active"]} for rank in range(2)]


def test_a_job_that_went_well(reports):
    job_report.check(reports, "torch", "topo", "gloo")
    job_report.check(reports, "torch", "auto", "gloo")


@pytest.mark.parametrize("change", [
    {"mode": "off"}, {"weights": "abd"}, {"controller": "mpi"}, {"steady_rounds": 1},
    {"plans": ["warming up"]}, {"rank": 0}, {"size": 1},
], ids=lambda change: next(iter(change)))
def test_one_rank_is_enough_to_fail_a_job(reports, change):
    reports[1] |= change
    with pytest.raises(AssertionError):
        job_report.check(reports, "torch", "topo", "gloo")


def test_the_mode_is_given_or_the_drivers(monkeypatch):
    monkeypatch.setenv(job_report.MODE, "gs")
    assert job_report.take_mode(monkeypatch) == "gs"
    assert job_report.MODE not in job_report.os.environ
    assert job_report.mode_variables("torch", "gs", monkeypatch) == {job_report.MODE: "gs"}
    assert job_report.MODE not in job_report.os.environ
    assert job_report.mode_variables("tensorflow", "gs", monkeypatch) == {}
    assert job_report.os.environ[job_report.MODE] == "gs"


@pytest.mark.parametrize("cores, mode, ranks", [
    (2, "topo", 2), (2, "auto", 2), (2, "scp", 1), (3, "topo+scp", 1), (4, "scp", 2)])
def test_scp_has_fewer_ranks_on_few_cores(monkeypatch, cores, mode, ranks):
    monkeypatch.setattr(job_report.cpu_set, "count_cores", lambda _: cores)
    assert job_report.ranks_for(mode) == ranks


def test_every_job_has_its_file():
    assert all((HERE / "ray_spark" / suite.file).is_file() for suite in JOBS)
    assert not any(suite.launched for suite in (*JOBS, *UPSTREAM))


def test_jobs_that_fail_are_told_whatever_mode_off_does():
    failed = Run({"a": Outcome("failed", "why"), "b": Outcome("passed")})
    runs = {"off": {"ray": failed, "test_ray": failed}, "topo": {"spark": failed}}
    assert [(job.mode, job.suite, job.test) for job in ecosystem_command.failed_jobs(runs)] == [
        ("off", "ray", "a"), ("topo", "spark", "a")]


def test_an_unknown_suite_is_refused(capsys):
    with pytest.raises(SystemExit):
        ecosystem_command.parse_arguments(["--suites", "ray,dask"])
    assert "'dask' is not one of ray, " in capsys.readouterr().err


def test_without_java_it_says_how_to_get_it(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(Unusable, match="apt-get install default-jre-headless"):
        ecosystem_command.check_java()


def test_what_it_lacks_is_named_with_all_that_it_needs(monkeypatch, tmp_path, capsys):
    assert {"ray", "pyspark", "pytest_timeout"} <= set(ecosystem_command.NEEDS)
    monkeypatch.setattr(ecosystem_command, "NEEDS", ["json", "none_such"])
    monkeypatch.setattr(ecosystem_command, "check_java", lambda: None)
    monkeypatch.setattr(sys, "argv", ["run", "--json", str(tmp_path / "outcomes.json")])
    assert ecosystem_command.main() == 2
    errors = capsys.readouterr().err
    assert "lacks none_such" in errors
    assert f"pip install --requirement {HERE / 'packages.txt'}" in errors
