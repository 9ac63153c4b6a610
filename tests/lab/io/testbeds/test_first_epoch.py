"""The first epoch of a job on a testbed: what its ranks count, and what is told of them."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

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

print(json.dumps(nodes.find(Communication(rank, 4, allgather)).ranks))
"""


class Slow(Stream):
    """Batches of 10, one each 0.1 s."""

    def epoch(self, number):
        records = list(RECORDS)
        for first in range(0, 40, 10):
            time.sleep(0.1)
            yield records[first:first + 10]


@pytest.mark.parametrize("seconds, samples, is_over", [(0.05, 10, False), (5, 40, True)])
def test_a_rank_counts_until_its_time_is_over_and_takes_the_rest(tmp_path, seconds, samples,
                                                                 is_over):
    rendezvous = Rendezvous(tmp_path, os.getppid())
    start = time.monotonic() + 0.05
    first_epoch_rank.take(Slow(), RECORDS, rendezvous, 0, start, start + seconds)
    counts, done = rendezvous.wait_for("counted.0"), rendezvous.wait_for("done.0")
    assert (counts["samples"], counts["is_over"]) == (samples, is_over)
    assert counts["seconds"] >= samples / 100
    assert done == {"numbers": list(range(40)), "sizes": [10] * 4}


def test_every_record_is_looked_at(tmp_path):
    with pytest.raises(WrongRecord, match="number 20 of 20"):
        first_epoch_rank.take(Slow(), Records(20, 100), Rendezvous(tmp_path, None), 0, 0.0, 0.0)


def test_ranks_that_are_through_wait_for_the_others():
    def rank_counts(samples, seconds, is_over):
        return {"samples": samples, "seconds": seconds, "is_over": is_over}

    assert first_epoch.rate([rank_counts(100, 10, False), rank_counts(100, 12.5, False)]) == 10 + 8
    assert first_epoch.rate([rank_counts(100, 2, True), rank_counts(100, 10, False)]) == 20
    assert first_epoch.rate([rank_counts(100, 2, True), rank_counts(100, 4, True)]) == 50


def test_what_goes_on_beside_a_job_ends_it_by_an_error(tmp_path):
    """Until then it is taken a step of now and then."""
    program = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"

    def meanwhile():
        while not (tmp_path / "begun").exists():
            yield
        raise OSError("the storage has ended")

    start = time.monotonic()
    with pytest.raises(OSError, match="the storage has ended"):
        launch.execute([[sys.executable, "-c", program, str(tmp_path / "begun")]], os.environ, 300,
                       meanwhile=meanwhile())
    assert time.monotonic() - start < 60


@pytest.fixture
def data(tmp_path):
    records = Records(1500, 3072)
    data_folder.write("lmdb", tmp_path / "lmdb", records)
    return tmp_path / "lmdb", records


def test_strided_ranks_read_nearly_everything_on_every_node(open_testbed, data):
    folder, records = data
    testbed = open_testbed(ParallelFileSystem(folder, 2, share=4))
    result = first_epoch.run(testbed, PEERS["py-lmdb-strided"], 4, records, 10, 60, sys.executable,
                             120)
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
    result = first_epoch.run(testbed, PEERS["py-lmdb"], 2, records, 10, 0.01, sys.executable, 120)
    assert result["samples"] < 1500 and not result["is_over"]
    assert (result["missing"], result["repeated"]) == (0, 0) and result["rl"] > 0.9


def test_who_needs_more_memory_than_a_node_has_is_told_so(open_testbed, data, tmp_path):
    """A rank that keeps what it gets."""
    folder, records = data
    testbed = open_testbed(ParallelFileSystem(folder, share=0.1))
    greedy = tmp_path / "greedy.py"
    greedy.write_text("import sys\n"
                      "from horovod_lab.io.data.records import Records\n"
                      "numbers = Records.numbers\n"
                      "kept = []\n"
                      "def keeping(self, batch):\n"
                      "    kept.append(bytearray(b'x' * (1 << 20)))\n"
                      "    return numbers(self, batch)\n"
                      "Records.numbers = keeping\n"
                      "from horovod_lab.io.testbeds import first_epoch_rank\n"
                      "first_epoch_rank.main()\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {greedy} "$@"\n')
    python.chmod(0o755)
    with pytest.raises(launch.JobFailed, match="1 processes were killed: their node may hold"):
        first_epoch.run(testbed, PEERS["py-lmdb"], 1, records, 10, 60, str(python), 60)


def test_ranks_of_a_simulated_node_share_its_reader_and_no_others(open_testbed, data, tmp_path):
    testbed = open_testbed(ParallelFileSystem(data[0], 2))
    rendezvous = tmp_path / "rendezvous"
    rendezvous.mkdir()
    output = launch.execute(
        [testbed.command(rank // 2, [sys.executable, "-c", NODE, str(rank), str(rendezvous)])
         for rank in range(4)], os.environ, 60, "/")
    assert sorted(map(json.loads, output.splitlines())) == [[0, 1], [0, 1], [2, 3], [2, 3]]
