"""What workers of Ray and Spark get of the driver's environment, and mpirun of the ranks'."""

from __future__ import annotations

import os
import sys

import pytest

from horovod_opt.launcher import environment, workers


@pytest.fixture
def driver(monkeypatch):
    for name in [name for name in os.environ if name.startswith("HOROVOD")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOROVOD_OPT_MODE", "topo")
    monkeypatch.setenv("HOROVOD_OPT_MDOE", "misspelt")
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "0")
    return monkeypatch


def test_the_settings_of_the_driver_reach_the_workers(driver):
    assert workers.environment(None) == {
        "HOROVOD_OPT_MODE": "topo", "HOROVOD_OPT_MDOE": "misspelt"}


def test_what_the_job_is_given_wins_and_stays_as_it_is(driver):
    extra = {"HOROVOD_OPT_MODE": "gs", "LANG": "C"}
    assert workers.environment(extra) == {
        "HOROVOD_OPT_MODE": "gs", "HOROVOD_OPT_MDOE": "misspelt", "LANG": "C"}
    assert extra == {"HOROVOD_OPT_MODE": "gs", "LANG": "C"}


def test_mpirun_gets_what_the_ranks_environment_lacks(driver):
    driver.setenv("PATH", "/usr/bin")
    driver.setenv("HOME", "/home/me")
    driver.delenv("PYTHONPATH", raising=False)
    directory = os.path.dirname(os.path.abspath(sys.executable))
    environ = environment.mpirun_environment({"A": "1"})
    assert set(environ) == {"A", "PATH", "HOME"}
    assert (environ["A"], environ["HOME"]) == ("1", "/home/me")
    assert directory in environ["PATH"].split(os.pathsep)


def test_mpirun_takes_the_path_that_the_ranks_are_given(driver):
    assert environment.mpirun_environment({"PATH": "/opt/mpi/bin"})["PATH"] == "/opt/mpi/bin"
