"""One rank of a job: takes batches of one pipeline for a while, and counts them.

First it takes a whole epoch, looks at every record in it, and notes its number: that warms all
caches, and shows how the pipeline shuffles. Then all ranks begin to count together. They go on
until the observer has seen what memory they hold.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from horovod_lab.io.data.records import Records, WrongRecord
from horovod_lab.io.peers import PEERS, stream_of
from horovod_lab.io.peers.stream import Place, Stream
from horovod_lab.io.testbeds.rendezvous import Rendezvous


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", choices=list(PEERS), required=True)
    for name in "data", "rendezvous":
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in "records", "record-bytes", "batch", "rank", "ranks", "parent":
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    peer = PEERS[options.peer]
    rendezvous = Rendezvous(options.rendezvous, options.parent)
    stream = stream_of(peer, Place(options.data, options.records, options.batch, peer.workers,
                                   options.rank, options.ranks, options.rendezvous))
    try:
        numbers, sizes = check_epoch(stream, Records(options.records, options.record_bytes))
        batches = repeat_epochs(stream)
        next(batches)  # what runs ahead does so now
        rendezvous.publish(f"ready.{options.rank}",
                           {"pid": os.getpid(), "numbers": numbers, "sizes": sizes})
        interval = rendezvous.wait_for("go")
        rendezvous.publish(f"done.{options.rank}", count(batches, **interval))
        take_until_stop(batches, rendezvous)
    except WrongRecord as error:
        sys.exit(f"{options.peer}, rank {options.rank}: {error}")
    stream.close()


def check_epoch(stream: Stream, records: Records) -> tuple[list[int], list[int]]:
    """The numbers of the records of one epoch, and the sizes of its batches."""
    numbers: list[int] = []
    sizes: list[int] = []
    for batch in stream.epoch(0):
        numbers += records.numbers(batch)
        sizes.append(len(batch))
    return numbers, sizes


def repeat_epochs(stream: Stream) -> Iterator[list[bytes]]:
    """Epoch after epoch. Raises WrongRecord if one is empty: it would never end."""
    for epoch in itertools.count(1):
        batch = None
        for batch in stream.epoch(epoch):
            yield batch
        if batch is None:
            raise WrongRecord(f"epoch {epoch} has no batch; remedy: more --records, or fewer "
                              "--ranks")


def count(batches: Iterator[list[bytes]], start: float, end: float) -> dict[str, float]:
    """From `start` until the first batch that comes after `end`, of time.monotonic()."""
    time.sleep(max(0.0, start - time.monotonic()))
    samples, now = 0, start
    while now < end:
        samples += len(next(batches))
        now = time.monotonic()
    return {"samples": samples, "seconds": now - start}


def take_until_stop(batches: Iterator[list[bytes]], rendezvous: Rendezvous) -> None:
    """Until the observer says stop. Ranks do not meet in steps: one that is ahead may wait for a
    batch that never comes because another rank has stopped, and is ended by that."""
    try:
        while not rendezvous.has("stop"):
            next(batches)
    except Exception:
        if not rendezvous.has("stop"):
            raise


if __name__ == "__main__":
    main()
