"""Libraries are put where a build wants them, with what TensorFlow says that it needs."""

from __future__ import annotations

import os

import pytest

from building import native


def test_a_library_that_is_in_use_is_not_written_to(tmp_path):
    old, new = tmp_path / "library.so", tmp_path / "new.so"
    old.write_bytes(b"old")
    new.write_bytes(b"the new one")
    with old.open("rb") as loaded:
        native.put(str(new), str(old))
        assert loaded.read() == b"old"
    assert old.read_bytes() == b"the new one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["library.so", "new.so"]


TENSORFLOW = """
print("it says this and that")
__version__ = "2.99.1"
class sysconfig:
    get_compile_flags = staticmethod(lambda: ["-I/there", "-DA=1"])
    get_link_flags = staticmethod(lambda: ["-L/there", "-l:libthat.so.2"])
"""


@pytest.fixture
def variables(tmp_path) -> dict[str, str]:
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def test_its_own_words(variables):
    assert native.find_tensorflow(variables) == native.Framework(
        "2.99.1", ("-I/there", "-DA=1"), ("-L/there", "-l:libthat.so.2"))


def test_none_is_wanted(variables):
    assert native.find_tensorflow({**variables, "HOROVOD_WITHOUT_TENSORFLOW": "1"}) is None


def test_one_that_cannot_be_imported_is_none(variables, tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError")
    assert native.find_tensorflow(variables) is None
