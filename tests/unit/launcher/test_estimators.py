"""The estimators of horovod.spark are refused where petastorm cannot be imported."""

from __future__ import annotations

import sys
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
