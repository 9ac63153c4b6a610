"""RayExecutor trains on two workers, in the mode that the driver has or gives; and both elastic
executors of Ray lose a worker, get another, and end with the weights of a job that has lost none.

A host whose worker is lost is not used again, so three are needed. Ray's one node here passes for
them: each is a resource of it, by which Horovod asks Ray for a place on a host.
"""

from __future__ import annotations

import digits_training
import pytest
import ray
from horovod.ray import ElasticRayExecutor, RayExecutor
from horovod.runner.elastic.discovery import HostDiscovery
from job_report import FRAMEWORKS, START_SECONDS, check, mode_variables, ranks_for, take_mode

HOSTS = ("host-1", "host-2", "host-3")
RANKS = 2
INTERFACE = "lo"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_static(framework, monkeypatch):
    mode = take_mode(monkeypatch)
    ranks = ranks_for(mode)
    ray.init(num_cpus=ranks, include_dashboard=False)
    try:
        executor = RayExecutor(RayExecutor.create_settings(timeout_s=START_SECONDS),
                               num_workers=ranks)
        executor.start(extra_env_vars=mode_variables(framework, mode, monkeypatch))
        reports = executor.run(digits_training.train, args=[framework])
        executor.shutdown()
    finally:
        ray.shutdown()
    check(reports, framework, mode, "gloo")


class Hosts(HostDiscovery):
    def find_available_hosts_and_slots(self) -> dict[str, int]:
        return dict.fromkeys(HOSTS, 1)


@pytest.fixture
def mode(monkeypatch):
    """The mode; Ray has started without it."""
    mode = take_mode(monkeypatch)
    ray.init(num_cpus=len(HOSTS), include_dashboard=False,
             resources={f"node:{host}": 1 for host in HOSTS})
    yield mode
    ray.shutdown()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_elastic_ray_executor(framework, mode, monkeypatch, tmp_path):
    settings = ElasticRayExecutor.create_settings(
        min_num_proc=RANKS, max_num_proc=RANKS, timeout_s=START_SECONDS, nics={INTERFACE})
    settings.discovery = Hosts()
    executor = ElasticRayExecutor(
        settings, env_vars=mode_variables(framework, mode, monkeypatch), override_discovery=False)
    executor.start()
    reports = executor.run(lambda: digits_training.train_elastic(framework, str(tmp_path)))
    check_elastic(reports, framework, mode, tmp_path)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ray_executor(framework, mode, monkeypatch, tmp_path):
    settings = RayExecutor.create_settings(timeout_s=START_SECONDS, nics={INTERFACE})
    settings.discovery = Hosts()
    executor = RayExecutor(settings, min_workers=RANKS, max_workers=RANKS,
                           override_discovery=False)
    executor.start(extra_env_vars=mode_variables(framework, mode, monkeypatch))
    reports = executor.run(digits_training.train_elastic, args=[framework, str(tmp_path)])
    check_elastic(reports, framework, mode, tmp_path)


def check_elastic(reports, framework, mode, folder) -> None:
    assert (folder / digits_training.LOST).exists()
    check(reports, framework, mode, "gloo")
