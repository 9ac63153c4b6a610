"""What TensorFlow says that a kernel is compiled with."""

from __future__ import annotations

import os

import pytest

from building.tensorflow_flags import TensorFlow, find_tensorflow

SOURCE = """
print("it says this and that")
__version__ = "2.99.1"
class sysconfig:
    get_compile_flags = staticmethod(lambda: ["-I/there", "-DA=1"])
    get_link_flags = staticmethod(lambda: ["-L/there", "-l:libthat.so.2"])
"""


@pytest.fixture
def variables(tmp_path) -> dict[str, str]:
    (tmp_path / "tensorflow.py").write_text(SOURCE)
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def test_its_own_words(variables):
    assert find_tensorflow(variables) == TensorFlow(
        "2.99.1", ("-I/there", "-DA=1"), ("-L/there", "-l:libthat.so.2"))


def test_none_is_wanted(variables):
    assert find_tensorflow({**variables, "HOROVOD_WITHOUT_TENSORFLOW": "1"}) is None


def test_one_that_cannot_be_imported_is_none(variables, tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError")
    assert find_tensorflow(variables) is None
