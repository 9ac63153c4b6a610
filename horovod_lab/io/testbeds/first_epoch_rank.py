"""One rank of a job that reads cold data: takes an epoch, counts what it gets in the first seconds
of it, and looks at every record."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from horovod_lab.io.data.records import Records, WrongRecord
from horovod_lab.io.peers import PEERS, Peer, stream_of
from horovod_lab.io.peers.stream import Place, Stream
from horovod_lab.io.testbeds.rendezvous import Rendezvous


def main() -> None:
    options, peer = parse(PEERS)
    rendezvous = Rendezvous(options.rendezvous, options.parent)
    stream = open_stream(options, peer, epochs=1)
    rendezvous.publish(f"ready.{options.rank}", {"pid": os.getpid()})
    interval = rendezvous.wait_for("go")
    try:
        take(stream, Records(options.records, options.record_bytes), rendezvous, options.rank,
             **interval)
    except WrongRecord as error:
        sys.exit(f"{options.peer}, rank {options.rank}: {error}")
    rendezvous.wait_for("stop")  # others may still need what this one serves
    stream.close()


def parse(peers: Mapping[str, Peer], *further: str) -> tuple[argparse.Namespace, Peer]:
    """The options of a rank, with `further` numbers, and its peer, one of these."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", choices=list(peers), required=True)
    for name in "data", "rendezvous":
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("records", "record-bytes", "batch", "rank", "ranks", "parent", "nodes", "memory",
                 *further):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    return options, peers[options.peer]


def open_stream(options: argparse.Namespace, peer: Peer, epochs: int) -> Stream:
    return stream_of(peer, Place(options.data, options.records, options.batch, peer.workers,
                                 options.rank, options.ranks, options.rendezvous, options.nodes,
                                 options.memory, epochs=epochs))


def take(stream: Stream, records: Records, rendezvous: Rendezvous, rank: int, start: float,
         end: float) -> None:
    """Takes the epoch from `start` on, of time.monotonic(). Tells `counted`: samples and seconds
    until the first batch that comes after `end`, or until the epoch is over; then `done`: the
    numbers of all records, and the sizes of all batches."""
    time.sleep(max(0.0, start - time.monotonic()))
    numbers: list[int] = []
    sizes: list[int] = []
    is_counting = True

    def count(is_over: bool) -> None:
        rendezvous.publish(f"counted.{rank}", {"samples": len(numbers), "is_over": is_over,
                                               "seconds": time.monotonic() - start})

    for batch in stream.epoch(0):
        rendezvous.check_parent()
        numbers += records.numbers(batch)
        sizes.append(len(batch))
        if is_counting and time.monotonic() >= end:
            is_counting = False
            count(is_over=False)
    if is_counting:
        count(is_over=True)
    rendezvous.publish(f"done.{rank}", {"numbers": numbers, "sizes": sizes})


if __name__ == "__main__":
    main()
