"""What workers of Ray and Spark get of the driver's environment, and mpirun of the ranks'."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from horovod_opt.launcher import environment, workers

# What the start of a job by horovod.ray and by horovod.spark gives the workers, with mocks in the
# place of Ray, of Spark and of what waits for workers.
START = """
import json, sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from unittest.mock import MagicMock, patch

class Mocks(MetaPathFinder, Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("ray", "pyspark"):
            return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return MagicMock(__version__="4.0.0")

    def exec_module(self, module):
        pass

def started(start):
    try:
        start()
    except Started as caught:
        return caught.args[0]

class Started(Exception):
    pass

def stop(environment):
    raise Started(environment)

sys.meta_path.insert(0, Mocks())
from horovod.ray import ElasticRayExecutor, RayExecutor
from horovod.spark import runner

given, found = {"LANG": "C"}, {}
executor = MagicMock()
executor._maybe_call_ray = lambda *call, extra_env_vars, **others: extra_env_vars
found["RayExecutor"] = RayExecutor.start(executor, extra_env_vars=given)

executor = MagicMock(run_env_vars={}, env_vars=given)
executor._create_remote_worker = lambda slot, environment: stop(environment)
spawn = ElasticRayExecutor._create_spawn_worker_fn(executor, [], None, None)
found["ElasticRayExecutor"] = started(lambda: spawn(None, []))

driver = MagicMock()
driver.task_host_hash_indices.return_value = {"host": [0]}
launch = lambda *job: stop(next(each for each in job if type(each) is dict))
with patch.multiple(runner, driver_service=MagicMock(), _make_spark_thread=MagicMock(),
                    _notify_and_register_task_addresses=MagicMock(), gloo_run_elastic=launch,
                    _register_task_addresses=MagicMock(), _launch_job=launch,
                    gloo_built=MagicMock(), is_gloo_used=MagicMock()):
    runner.driver_service.SparkDriverService.return_value = driver
    for start in (runner.run, runner.run_elastic):
        found[start.__name__] = started(lambda: start(None, num_proc=1, env=given))
print(json.dumps(found))
"""


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


@pytest.mark.parametrize("start", ["RayExecutor", "ElasticRayExecutor", "run", "run_elastic"])
def test_ray_and_spark_give_them_to_the_workers(driver, start):
    pytest.importorskip("horovod")
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    environment = json.loads(done.stdout)[start]
    assert environment["HOROVOD_OPT_MODE"] == "topo"
    assert environment["LANG"] == "C"


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
