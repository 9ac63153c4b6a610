"""horovod.spark.run trains in two Spark tasks, in the mode that the driver has or gives."""

from __future__ import annotations

import digits_training
import horovod.spark
import pytest
from expect import FRAMEWORKS, START_SECONDS, check, given, ranks_for


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_run(framework, controller, spark_mode, monkeypatch):
    reports = horovod.spark.run(
        digits_training.train, args=(framework,), num_proc=ranks_for(spark_mode),
        use_gloo=controller == "gloo", use_mpi=controller == "mpi",
        start_timeout=START_SECONDS, env=given(framework, spark_mode, monkeypatch))
    check(reports, framework, spark_mode, controller)
