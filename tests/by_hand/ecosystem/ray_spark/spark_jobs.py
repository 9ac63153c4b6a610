"""horovod.spark trains in two Spark tasks, in the mode that the driver has or gives. An elastic job
loses a rank, Spark runs its task again, and it ends with the weights of one that has lost none."""

from __future__ import annotations

from collections.abc import Iterator

import digits_training
import horovod.spark
import pytest
from job_report import FRAMEWORKS, START_SECONDS, check, mode_variables, ranks_for, take_mode

ATTEMPTS = 4  # of Spark at a task


@pytest.fixture
def spark_mode(monkeypatch) -> Iterator[str]:
    """The mode to ask for; Spark, with two tasks at a time, has started without it."""
    from pyspark import SparkConf, SparkContext

    mode = take_mode(monkeypatch)
    conf = SparkConf().setMaster(f"local[2,{ATTEMPTS}]").setAppName("tests/by_hand/ecosystem")
    context = SparkContext(conf=conf.set("spark.ui.enabled", "false"))
    yield mode
    context.stop()


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_run(framework, controller, spark_mode, monkeypatch):
    reports = horovod.spark.run(
        digits_training.train, args=(framework,), num_proc=ranks_for(spark_mode),
        use_gloo=controller == "gloo", use_mpi=controller == "mpi",
        start_timeout=START_SECONDS, env=mode_variables(framework, spark_mode, monkeypatch))
    check(reports, framework, spark_mode, controller)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_run_elastic(framework, spark_mode, monkeypatch, tmp_path):
    reports = horovod.spark.run_elastic(
        digits_training.train_elastic, args=(framework, str(tmp_path)), num_proc=2,
        start_timeout=START_SECONDS, env=mode_variables(framework, spark_mode, monkeypatch))
    assert (tmp_path / digits_training.LOST).exists()
    check(reports, framework, spark_mode, "gloo")
