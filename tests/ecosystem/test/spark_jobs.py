"""horovod.spark.run and run_elastic train on two Spark tasks, in the mode that the driver has or
gives. The elastic job loses a rank, and Spark runs its task again."""

from __future__ import annotations

import digits_training
import horovod.spark
import pytest
from expect import FRAMEWORKS, check, given, ranks_for, start_without_mode
from pyspark import SparkConf, SparkContext

START_SECONDS = 100
ATTEMPTS = 4  # of Spark at a task


@pytest.fixture
def mode(monkeypatch):
    """The mode; Spark has started without it."""
    mode = start_without_mode(monkeypatch)
    conf = SparkConf().setMaster(f"local[2,{ATTEMPTS}]").setAppName("tests/ecosystem")
    context = SparkContext(conf=conf.set("spark.ui.enabled", "false"))
    yield mode
    context.stop()


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_run(framework, controller, mode, monkeypatch):
    reports = horovod.spark.run(
        digits_training.train, args=(framework,), num_proc=ranks_for(mode),
        use_gloo=controller == "gloo", use_mpi=controller == "mpi",
        start_timeout=START_SECONDS, env=given(framework, mode, monkeypatch))
    check(reports, framework, mode, controller)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_run_elastic(framework, mode, monkeypatch, tmp_path):
    reports = horovod.spark.run_elastic(
        digits_training.train_elastic, args=(framework, str(tmp_path)), num_proc=2,
        start_timeout=START_SECONDS, env=given(framework, mode, monkeypatch))
    assert (tmp_path / "lost").exists()
    check(reports, framework, mode, "gloo")
