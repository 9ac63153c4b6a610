"""horovod.spark: its settings are Spark's, and estimators are refused without petastorm."""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from horovod_opt.launcher import estimators


def test_without_petastorm_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "petastorm", None)
    with pytest.raises(ImportError, match="horovod.spark.torch reads its data through petastorm"
                                          r".*horovod\.spark\.run"):
        estimators.check("horovod.spark.torch")


def test_a_petastorm_that_its_pyarrow_breaks_is_refused_with_the_cause(monkeypatch, tmp_path):
    (tmp_path / "petastorm.py").write_text("import pyarrow_without.filesystem\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "petastorm", raising=False)
    with pytest.raises(ImportError, match="No module named 'pyarrow_without'"):
        estimators.check("horovod.spark.keras")


def test_a_petastorm_that_works_is_taken(monkeypatch):
    petastorm = ModuleType("petastorm")
    petastorm.make_batch_reader = lambda: None
    monkeypatch.setitem(sys.modules, "petastorm", petastorm)
    estimators.check("horovod.spark.lightning")


def test_settings_of_elastic_jobs_have_the_names_that_spark_knows():
    """Spark ignores others. https://spark.apache.org/docs/latest/configuration.html, the same since
    Spark 3.1."""
    conf = runpy.run_path(str(Path(find_spec("horovod").origin).parent / "spark" / "conf.py"))
    names = {value[0] for name, value in conf.items()
             if name.startswith("SPARK_CONF_") and isinstance(value, tuple)}
    assert names == set(conf["SPARK_CONF_DEFAULT_VALUES"]) == {"spark.task.maxFailures", *(
        f"spark.excludeOnFailure.{name}" for name in (
            "enabled", "task.maxTaskAttemptsPerExecutor", "task.maxTaskAttemptsPerNode",
            "stage.maxFailedTasksPerExecutor", "stage.maxFailedExecutorsPerNode",
            "application.maxFailedTasksPerExecutor", "application.maxFailedExecutorsPerNode"))}
