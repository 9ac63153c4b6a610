"""Settings of Spark that horovod.spark.conf names for elastic jobs: Spark ignores unknown ones."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path


def test_they_have_the_names_that_spark_knows():
    """https://spark.apache.org/docs/latest/configuration.html, the same since Spark 3.1."""
    conf = runpy.run_path(str(Path(find_spec("horovod").origin).parent / "spark" / "conf.py"))
    named = {value[0] for name, value in conf.items()
             if name.startswith("SPARK_CONF_") and isinstance(value, tuple)}
    assert named == set(conf["SPARK_CONF_DEFAULT_VALUES"]) == {"spark.task.maxFailures", *(
        f"spark.excludeOnFailure.{name}" for name in (
            "enabled", "task.maxTaskAttemptsPerExecutor", "task.maxTaskAttemptsPerNode",
            "stage.maxFailedTasksPerExecutor", "stage.maxFailedExecutorsPerNode",
            "application.maxFailedTasksPerExecutor", "application.maxFailedExecutorsPerNode"))}
