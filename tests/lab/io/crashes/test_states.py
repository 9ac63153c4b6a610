"""Which states a recorded program can leave: nothing that was synced is lost, all else may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from horovod_lab.io.crashes import operations
from horovod_lab.io.crashes.operations import (
    FILE,
    FOLDER,
    LINK,
    MARKED,
    RENAME,
    SYNC,
    TRUNCATE,
    UNLINK,
    WRITE,
)
from horovod_lab.io.crashes.states import Crashes, put
from horovod_lab.io.storage.file_content import BLOCK

BEGIN = [(FILE, 1), (LINK, 1, 0, b"a"), (WRITE, 1, 0, b"old"), (MARKED, "begin")]
NEW = [(FILE, 2), (LINK, 2, 0, b"b"), (WRITE, 2, 0, b"new")]


@pytest.fixture
def states(tmp_path):
    """After the last of these operations: contents of files, each once."""
    (tmp_path / "empty").mkdir()

    def states(*recorded) -> list[dict]:
        crashes = Crashes(tmp_path / "empty", [*BEGIN, *recorded], "begin",
                          first=len(BEGIN) + len(recorded) - 1)
        found = [state.contents for state in crashes.states()]
        return [contents for i, contents in enumerate(found) if contents not in found[:i]]

    return states


def test_what_is_settled_is_there(states):
    assert states() == [{"a": b"old"}]


def test_a_new_file_is_there_or_not_whole_empty_or_zeros(states):
    found = states(*NEW, (MARKED, "end"))
    assert {contents.get("b") for contents in found} == {None, b"", b"\0\0\0", b"new"}
    assert all(contents["a"] == b"old" for contents in found)


def test_a_synced_file_has_its_bytes_and_a_synced_folder_its_names(states):
    found = states(*NEW, (SYNC, 2), (MARKED, "end"))
    assert [contents.get("b") for contents in found] == [None, b"new"]
    assert states(*NEW, (SYNC, 2), (SYNC, 0), (MARKED, "end")) == [{"a": b"old", "b": b"new"}]


def test_a_rename_within_a_folder_is_one_change(states):
    found = states(*NEW, (SYNC, 2), (SYNC, 0), (RENAME, 0, b"b", 0, b"a"), (MARKED, "end"))
    assert found == [{"a": b"old", "b": b"new"}, {"a": b"new"}]


def test_a_file_written_anew_may_be_empty_old_or_mixed(states):
    size = 2 * BLOCK
    found = states((TRUNCATE, 1, 0), (WRITE, 1, 0, b"n" * size), (MARKED, "end"))
    there = {contents["a"] for contents in found}
    zeros = bytes(BLOCK)
    assert {b"old", b"", b"n" * size, zeros + b"n" * BLOCK, b"n" * BLOCK + zeros,
            b"old" + bytes(size - 3)} <= there


def test_a_deletion_lasts_or_not(states):
    found = states((UNLINK, 0, b"a"), (MARKED, "end"))
    assert found == [{"a": b"old"}, {}]
    assert states((UNLINK, 0, b"a"), (SYNC, 0), (MARKED, "end")) == [{}]


def test_of_many_units_some_subsets_are_drawn(states):
    many = [(WRITE, 1, i * BLOCK, b"n" * BLOCK) for i in range(20)]
    found = states(*many, (MARKED, "end"))
    assert 256 < len(found) <= 2 + 2 * 40 + 256


def test_states_are_put_as_files(tmp_path):
    put({"a": b"x", "c": None, "c/d": b""}, tmp_path)
    assert (tmp_path / "a").read_bytes() == b"x" and (tmp_path / "c" / "d").read_bytes() == b""


def test_the_storage_records_what_a_program_does(crashing, tmp_path):
    """And of a mark that it comes to."""
    recorded = tmp_path / "recorded"
    crashing.record(recorded)
    folder: Path = crashing.path(0)
    (folder / "new").mkdir()
    (folder / "new" / "file").write_bytes(b"bytes")
    (folder / (operations.MARK + "end")).exists()
    kinds = [operation[0] for operation in operations.read(recorded)]
    assert kinds == [FOLDER, FILE, LINK, WRITE, MARKED]
    contents = list(Crashes(crashing.folder, operations.read(recorded), "end").states())
    assert contents[0].contents == {"new": None, "new/file": b"bytes"}
