"""One rank of a job that reads cold data: takes an epoch, counts what it gets in the first seconds
of it, and looks at every record."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from horovod_lab.io.data.records import Records, WrongRecord
from horovod_lab.io.peers import PEERS, stream_of
from horovod_lab.io.peers.stream import Place, Stream
from horovod_lab.io.testbeds.meeting import Meeting


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", choices=list(PEERS), required=True)
    for name in "data", "meeting":
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("records", "record-bytes", "batch", "rank", "ranks", "parent", "nodes", "memory"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    peer = PEERS[options.peer]
    meeting = Meeting(options.meeting, options.parent)
    stream = stream_of(peer, Place(options.data, options.records, options.batch, peer.workers,
                                   options.rank, options.ranks, options.meeting, options.nodes,
                                   options.memory, epochs=1))
    meeting.tell(f"ready.{options.rank}", {"pid": os.getpid()})
    window = meeting.hear("go")
    try:
        taken(stream, Records(options.records, options.record_bytes), meeting, options.rank,
              **window)
    except WrongRecord as error:
        sys.exit(f"{options.peer}, rank {options.rank}: {error}")
    meeting.hear("stop")  # others may still need what this one serves
    stream.close()


def taken(stream: Stream, records: Records, meeting: Meeting, rank: int, start: float, end: float
          ) -> None:
    """Takes the epoch from `start` on, of time.monotonic(). Tells `counted`: samples and seconds
    until the first batch that comes after `end`, or until the epoch is over; then `done`: the
    numbers of all records, and the sizes of all batches."""
    time.sleep(max(0.0, start - time.monotonic()))
    numbers: list[int] = []
    sizes: list[int] = []
    is_counting = True

    def count(is_over: bool) -> None:
        meeting.tell(f"counted.{rank}", {"samples": len(numbers), "is_over": is_over,
                                         "seconds": time.monotonic() - start})

    for batch in stream.epoch(0):
        meeting.stay()
        numbers += records.numbers(batch)
        sizes.append(len(batch))
        if is_counting and time.monotonic() >= end:
            is_counting = False
            count(is_over=False)
    if is_counting:
        count(is_over=True)
    meeting.tell(f"done.{rank}", {"numbers": numbers, "sizes": sizes})


if __name__ == "__main__":
    main()
