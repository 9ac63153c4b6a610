"""The first epoch of a job on a testbed: what its ranks count, and what is told of them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from events import Clock, wait_until
from jobs import HANG_SECONDS

from horovod_lab.io.data import data_folder
from horovod_lab.io.data.records import Records, WrongRecord
from horovod_lab.io.peers import PEERS
from horovod_lab.io.peers.stream import Stream
from horovod_lab.io.testbeds import first_epoch, first_epoch_rank
from horovod_lab.io.testbeds.parallel import ParallelFileSystem
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_lab.measuring import launch

RECORDS = Records(40, 100)
# Prints the ranks of this rank's node, as the input side finds them; they tell each other in files.
NODE = """
import json, os, sys
from pathlib import Path
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_opt.io.job import nodes
from horovod_opt.io.job.communication import Communication

rank, rendezvous = int(sys.argv[1]), Rendezvous(Path(sys.argv[2]), None)

def allgather(data):
    rendezvous.publish(f"where.{rank}", data.decode())
    return [name.encode() for name in rendezvous.wait_for_all("where", 4)]

ranks = nodes.find(Communication(rank, 4, allgather)).ranks
os.write(1, json.dumps(ranks).encode() + b"\\n")  # at once: all have one pipe
"""


class Slow(Stream):
    """Batches of 10, one each 0.125 s of a clock."""

    def __init__(self, clock: Clock):
        self._clock = clock

    def epoch(self, number):
        records = list(RECORDS)
        for first in range(0, 40, 10):
            self._clock.sleep(0.125)
            yield records[first:first + 10]


@pytest.mark.parametrize("seconds, samples, is_over", [
    (0.0625, 10, False), (0.25, 20, False), (5, 40, True)])
def test_a_rank_counts_until_its_time_is_over_and_takes_the_rest(tmp_path, monkeypatch, seconds,
                                                                 samples, is_over):
    clock = Clock()
    monkeypatch.setattr(first_epoch_rank, "time", clock)
    rendezvous = Rendezvous(tmp_path, os.getppid())
    start = clock.now + 0.5
    first_epoch_rank.take(Slow(clock), RECORDS, rendezvous, 0, start, start + seconds)
    counts, done = rendezvous.wait_for("counted.0"), rendezvous.wait_for("done.0")
    assert (counts["samples"], counts["is_over"]) == (samples, is_over)
    assert counts["seconds"] == samples / 80
    assert done == {"numbers": list(range(40)), "sizes": [10] * 4}


def test_every_record_is_looked_at(tmp_path):
    with pytest.raises(WrongRecord, match="number 20 of 20"):
        first_epoch_rank.take(Slow(Clock()), Records(20, 100), Rendezvous(tmp_path, None), 0, 0.0,
                              0.0)


def test_ranks_that_are_through_wait_for_the_others():
    def rank_counts(samples, seconds, is_over):
        return {"samples": samples, "seconds": seconds, "is_over": is_over}

    assert first_epoch.rate([rank_counts(100, 10, False), rank_counts(100, 12.5, False)]) == 10 + 8
    assert first_epoch.rate([rank_counts(100, 2, True), rank_counts(100, 10, False)]) == 20
    assert first_epoch.rate([rank_counts(100, 2, True), rank_counts(100, 4, True)]) == 50


def test_what_goes_on_beside_a_job_ends_it_by_an_error(tmp_path):
    """Until then it is taken a step of now and then. The job does not end by itself."""
    program = """
import os, pathlib, signal, sys
pathlib.Path(sys.argv[1], "draft").write_text(str(os.getpid()))
pathlib.Path(sys.argv[1], "draft").rename(pathlib.Path(sys.argv[1], "begun"))
while True:
    signal.pause()
"""

    def meanwhile():
        while not (tmp_path / "begun").exists():
            yield
        raise OSError("the storage has ended")

    with pytest.raises(OSError, match="the storage has ended"):
        launch.execute([[sys.executable, "-c", program, str(tmp_path)]], os.environ, HANG_SECONDS,
                       meanwhile=meanwhile())
    pid = (tmp_path / "begun").read_text()
    wait_until(lambda: not Path("/proc", pid).exists())


@pytest.fixture
def data(tmp_path):
    records = Records(1500, 3072)
    data_folder.write("lmdb", tmp_path / "lmdb", records)
    return tmp_path / "lmdb", records


def rank_program(folder: Path, first: str) -> str:
    """In place of a Python: one that does something `first` and then is a rank."""
    program, python = folder / "program.py", folder / "python"
    program.write_text(f"{first}\nfrom horovod_lab.io.testbeds import first_epoch_rank\n"
                       "first_epoch_rank.main()\n")
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {program} "$@"\n')
    python.chmod(0o755)
    return str(python)


# The page cache keeps what the rank has looked at: a kernel may take back what is not locked.
KEEPING = """
import ctypes, sys
CURRENT, FUTURE, ONFAULT = 1, 2, 4
if ctypes.CDLL(None, use_errno=True).mlockall(CURRENT | FUTURE | ONFAULT):
    sys.exit(f"memory cannot be locked: errno {ctypes.get_errno()}")
"""
# The rank keeps what it gets.
GREEDY = """
from horovod_lab.io.data.records import Records
numbers = Records.numbers
kept = []
def keeping(self, batch):
    kept.append(bytearray(b"x" * (1 << 20)))
    return numbers(self, batch)
Records.numbers = keeping
"""


def test_strided_ranks_read_nearly_everything_on_every_node(open_testbed, data, tmp_path):
    folder, records = data
    testbed = open_testbed(ParallelFileSystem(folder, 2, share=4))
    result = first_epoch.run(testbed, PEERS["py-lmdb-strided"], 4, records, 10, HANG_SECONDS,
                             rank_program(tmp_path, KEEPING), HANG_SECONDS)
    assert result["samples"] == 1500 and result["by_rank"] == [375] * 4 and result["is_over"]
    assert (result["missing"], result["repeated"]) == (0, 0) and result["rl"] < 0.5
    size = (folder / "data.mdb").stat().st_size
    assert 1.8 * size < result["bytes"] < 2.3 * size
    assert result["read_factor"] == pytest.approx(result["bytes"] / 1500 / 3072)
    assert result["requests"] >= result["bytes"] / (128 << 10)
    assert result["processes"] == 4 and result["pss_bytes"] > 0


def test_what_is_not_measured_is_read_all_the_same(open_testbed, data):
    folder, records = data
    testbed = open_testbed(ParallelFileSystem(folder, share=4))
    result = first_epoch.run(testbed, PEERS["py-lmdb"], 2, records, 10, 0.01, sys.executable,
                             HANG_SECONDS)
    assert result["samples"] < 1500 and not result["is_over"]
    assert (result["missing"], result["repeated"]) == (0, 0) and result["rl"] > 0.9


def test_who_needs_more_memory_than_a_node_has_is_told_so(open_testbed, data, tmp_path):
    folder, records = data
    testbed = open_testbed(ParallelFileSystem(folder, share=0.1))
    with pytest.raises(launch.JobFailed, match="1 processes were killed: their node may hold"):
        first_epoch.run(testbed, PEERS["py-lmdb"], 1, records, 10, HANG_SECONDS,
                        rank_program(tmp_path, GREEDY), HANG_SECONDS)


def test_ranks_of_a_simulated_node_share_its_reader_and_no_others(open_testbed, data, tmp_path):
    testbed = open_testbed(ParallelFileSystem(data[0], 2))
    rendezvous = tmp_path / "rendezvous"
    rendezvous.mkdir()
    output = launch.execute(
        [testbed.command(rank // 2, [sys.executable, "-c", NODE, str(rank), str(rendezvous)])
         for rank in range(4)], os.environ, HANG_SECONDS, "/")
    assert sorted(map(json.loads, output.splitlines())) == [[0, 1], [0, 1], [2, 3], [2, 3]]
