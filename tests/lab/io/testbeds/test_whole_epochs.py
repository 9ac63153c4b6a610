"""Whole epochs of cold data on a testbed: what comes, from where, and what is told of it."""

from __future__ import annotations

import sys

import pytest
from jobs import HANG_SECONDS

pytest.importorskip("torch")

from horovod_lab.io.data import data_folder
from horovod_lab.io.data.records import Records
from horovod_lab.io.peers import KEEPING
from horovod_lab.io.storage.timing_model import Speed
from horovod_lab.io.testbeds import reading_nodes, whole_epochs
from horovod_lab.io.testbeds.parallel import ParallelFileSystem

RECORDS = Records(1024, 32 << 10)


def test_nodes_that_keep_all_read_it_once_and_in_order(tmp_path, open_testbed):
    """As target M1 has it; and nobody goes back in a file while memory is filled."""
    folder = tmp_path / "tfrecord"
    data_folder.write(KEEPING.format, folder, RECORDS)
    # Room for more than the data, as there is little of it beside what a process needs.
    testbed = open_testbed(ParallelFileSystem(folder, 2, share=2.5))
    found = whole_epochs.run(testbed, KEEPING, RECORDS, 16, 3, sys.executable, HANG_SECONDS)
    assert found["is_complete"]
    data = RECORDS.count * RECORDS.size
    assert data <= found["epochs"][0]["bytes"] <= 1.02 * data
    assert [epoch["bytes"] for epoch in found["epochs"][1:]] == [0, 0]
    assert found["epochs"][0]["inversions"] < 0.1 * found["epochs"][0]["requests"]
    assert 0 < found["first_batch_seconds"] <= found["epochs"][0]["seconds"]


def test_what_is_not_installed_is_named(monkeypatch):
    missing = KEEPING.__class__("none", "a pipeline", "none", "None", "tfrecord", ("no-such-one",))
    monkeypatch.setattr(ParallelFileSystem, "check", lambda nodes: None)
    [row] = reading_nodes.measure((1,), (missing,), RECORDS)
    assert row["pipeline"] == "a pipeline" and "no no-such-one: " in row["absence"]


def test_the_storage_is_at_work_for_bytes_and_for_going_back():
    assert reading_nodes.storage_seconds({"bytes": 300, "inversions": 4},
                                         Speed(100, 7, 0.5)) == 5
