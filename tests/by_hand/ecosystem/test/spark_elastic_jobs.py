"""horovod.spark.run_elastic loses a rank, Spark runs its task again, and the job ends with the
weights of one that has lost none."""

from __future__ import annotations

import digits_training
import horovod.spark
import pytest
from expect import FRAMEWORKS, START_SECONDS, check, given


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_run_elastic(framework, spark_mode, monkeypatch, tmp_path):
    reports = horovod.spark.run_elastic(
        digits_training.train_elastic, args=(framework, str(tmp_path)), num_proc=2,
        start_timeout=START_SECONDS, env=given(framework, spark_mode, monkeypatch))
    assert (tmp_path / digits_training.LOST).exists()
    check(reports, framework, spark_mode, "gloo")
