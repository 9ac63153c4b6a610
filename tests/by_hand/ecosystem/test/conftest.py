"""Spark, for those jobs that run on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from expect import start_without_mode

ATTEMPTS = 4  # of Spark at a task


@pytest.fixture
def spark_mode(monkeypatch) -> Iterator[str]:
    """The mode to ask for; Spark, with two tasks at a time, has started without it."""
    from pyspark import SparkConf, SparkContext

    mode = start_without_mode(monkeypatch)
    conf = SparkConf().setMaster(f"local[2,{ATTEMPTS}]").setAppName("tests/by_hand/ecosystem")
    context = SparkContext(conf=conf.set("spark.ui.enabled", "false"))
    yield mode
    context.stop()
