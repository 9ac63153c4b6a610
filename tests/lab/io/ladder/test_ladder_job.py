"""Jobs that cannot go on: nothing hangs, and what is said names the reason."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import pytest
from jobs import HANG_SECONDS

from horovod_lab.io.data.records import Records
from horovod_lab.io.ladder import job
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.testbeds.testbed import WarmCache
from horovod_lab.measuring.launch import JobFailed

RECORDS = Records(100, 100)


def shape(**changes) -> job.Shape:
    return job.Shape(**{"ranks": 2, "node_ranks": 1, "batch": 2, "iterations": 5,
                        "shared_buffer": "memory", "iterations_per_read": 1, "tokens": 1,
                        **changes})


class Killed(WarmCache):
    """Its processes end at once."""

    memory = 4096

    def command(self, node, argv, network=True):
        return ["false"]

    def count_memory_kills(self):
        return 2


def test_ranks_that_were_killed_for_their_memory(tmp_path):
    with pytest.raises(JobFailed, match="2 ranks were killed: their node may hold 4096 bytes more "
                                        "than when they began; remedy: more --records, or a "
                                        "larger --share. ended with exit code 1"):
        job.run("lmdb", shape(), Killed(tmp_path), RECORDS, HANG_SECONDS)


def test_mpi_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(job, "find_mpirun", lambda: "")
    with pytest.raises(JobFailed, match="--window mpi: no mpirun here; remedy: pip install"):
        job.run("lmm", shape(shared_buffer="mpi"), WarmCache(tmp_path), RECORDS, HANG_SECONDS)


def test_a_rank_says_what_is_wrong_with_the_data(tmp_path, ladder):
    folder = ladder.write(tmp_path / "db", [bytes(100)] * 100)  # without numbers and checksums
    with pytest.raises(JobFailed, match="lmdb, rank 0: a record that says it is number 0 of 100 "
                                        "has a wrong checksum"):
        job.run("lmdb", shape(ranks=1), WarmCache(folder), RECORDS, HANG_SECONDS)


def test_a_rank_ends_when_the_benchmark_is_gone(tmp_path):
    """With a parent that is not its own, a rank is one that was left behind."""
    place = Place(str(tmp_path), 0, 2, 1, 2, 5, 100)
    process = subprocess.run(
        [sys.executable, "-m", "horovod_lab.io.ladder.rank", "--strategy", "lmdb",
         "--rendezvous", str(tmp_path), "--place", json.dumps(asdict(place)), "--records", "100",
         "--record-bytes", "100", "--parent", "1"], capture_output=True, text=True,
        timeout=HANG_SECONDS)
    assert process.returncode == 1 and "has ended" in process.stderr
