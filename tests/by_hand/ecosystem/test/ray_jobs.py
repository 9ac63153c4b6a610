"""RayExecutor trains on two workers, in the mode that the driver has or gives."""

from __future__ import annotations

import digits_training
import pytest
import ray
from expect import FRAMEWORKS, START_SECONDS, check, given, ranks_for, start_without_mode
from horovod.ray import RayExecutor


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_static(framework, monkeypatch):
    mode = start_without_mode(monkeypatch)
    ranks = ranks_for(mode)
    ray.init(num_cpus=ranks, include_dashboard=False)
    try:
        executor = RayExecutor(RayExecutor.create_settings(timeout_s=START_SECONDS),
                               num_workers=ranks)
        executor.start(extra_env_vars=given(framework, mode, monkeypatch))
        reports = executor.run(digits_training.train, args=[framework])
        executor.shutdown()
    finally:
        ray.shutdown()
    check(reports, framework, mode, "gloo")
