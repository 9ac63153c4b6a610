"""What NCCL says of the allreduces that it is asked for, if ENVIRONMENT asks it to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# host:process:thread [device] NCCL INFO AllReduce: ... count 2400 ... comm 0x55... ...
ALLREDUCE = re.compile(
    r":\d+:(?P<thread>\d+) \[\d+\] NCCL INFO AllReduce: .*?\bcount (?P<elements>\d+) "
    r".*?\bcomm (?P<communicator>0x[0-9a-f]+)")
ENVIRONMENT = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL"}


@dataclass(frozen=True)
class Allreduce:
    thread: int
    elements: int
    communicator: str


def read(text: str) -> list[Allreduce]:
    """Of one process, in order."""
    return [Allreduce(int(match["thread"]), int(match["elements"]), match["communicator"])
            for match in ALLREDUCE.finditer(text)]


def last_steps(calls: Sequence[Allreduce], buckets: Sequence[int], steps: int) -> bool:
    """Whether the last calls are those of so many steps, in each of which these `buckets` (their
    elements) are reduced in this order. `calls`: of buckets only."""
    wanted = list(buckets) * steps
    return bool(wanted) and [call.elements for call in calls[-len(wanted):]] == wanted
