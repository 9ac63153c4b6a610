"""Numbers of the native side that the simulation and the doctor repeat."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from horovod_lab.simulate import costs, nonblocking_allreduce
from horovod_lab.simulate.modes import messages, scp, topo
from horovod_opt.settings import Settings

CSRC = Path(__file__).parents[3] / "horovod_opt" / "csrc"


def native(file: str, name: str) -> int:
    """The value of a constant: a whole number, shifted or not, or a duration in its unit."""
    kind = r"(?:constexpr [\w:]+ (?:\w+\(\d+\), )?|int64_t )"
    match = re.search(rf"{kind}{name}(?: = |\(|\{{)(\d+)(?: << (\d+))?[;)}}]",
                      (CSRC / file).read_text())
    assert match, f"{file} has no {name}"
    return int(match[1]) << int(match[2] or 0)


@pytest.mark.parametrize("file, name, number", [
    ("core/shared_memory/bucket_places.h", "kMost", costs.PLACE),
    ("core/reduction/node_collectives.h", "kDefaultChunk", costs.CHUNK),
    ("core/cores/partition.cc", "kCoresPerRank", scp.CORES_OF_RANK),
    ("binding/modes/topo/rounds.h", "kFirstListening", 1e3 * topo.FIRST_LISTENING),
    ("binding/modes/topo/rounds.cc", "kLongestListening", 1e3 * topo.LONGEST_LISTENING),
    ("binding/modes/topo/rounds.cc", "kPartOfQuiet", 1 / topo.PART_OF_QUIET),
    ("binding/modes/topo/rounds.cc", "kHeartbeatsBetweenNodes", topo.HEARTBEATS_BETWEEN_NODES),
    ("core/network/allreduce_schedules.cc", "kLittle", nonblocking_allreduce.LITTLE),
    ("core/network/allreduce_schedules.cc", "kLongestRing", nonblocking_allreduce.LONGEST_RING),
    ("core/network/nonblocking_allreduce.h", "kChannels", nonblocking_allreduce.CHANNELS),
    ("core/network/nonblocking_allreduce.h", "first", nonblocking_allreduce.FIRST_CHUNK),
    ("core/network/nonblocking_allreduce.h", "chunk", nonblocking_allreduce.CHUNK),
    ("binding/network/mpi_transport.cc", "kNapPart", messages.NAP_PART),
    ("binding/network/mpi_transport.cc", "kShortestNap", 1e6 * messages.SHORTEST_NAP),
    ("binding/network/mpi_transport.cc", "kLongestNap", 1e6 * messages.LONGEST_NAP),
    ("binding/network/mpi_transport.cc", "kLongPart", messages.LONG_PART),
    ("binding/network/mpi_transport.cc", "kLongestOfAll", 1e3 * messages.LONGEST_OF_ALL),
])
def test_the_simulation_has_the_numbers_of_what_it_simulates(file, name, number):
    assert native(file, name) == number


def test_the_help_says_how_many_cores_auto_wants():
    cores = native("binding/modes/scp.cc", "kCoresToSpare")
    help_text = Settings.__dataclass_fields__["mode"].metadata["help"]
    assert f"with scp where every rank has at least {cores} cores" in help_text
