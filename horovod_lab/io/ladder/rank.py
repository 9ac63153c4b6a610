"""One rank of the ladder: takes its batches of some iterations, and says what that took.

After each iteration all ranks meet, as they do in a training. Each record is looked at: it must be
the one that Caffe would give this rank in this iteration.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from horovod_lab.io.data.records import Records, WrongRecord
from horovod_lab.io.ladder import shared_buffer
from horovod_lab.io.ladder.links import LinkLost, Links
from horovod_lab.io.ladder.place import MPI, Place
from horovod_lab.io.ladder.storage_requests import StorageRequests
from horovod_lab.io.strategies import RUNGS
from horovod_lab.io.strategies.strategy import Strategy
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_opt.io.errors import DataError, InputError


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", choices=list(RUNGS), required=True)
    parser.add_argument("--rendezvous", type=Path, required=True)
    parser.add_argument("--place", type=json.loads, required=True)
    for name in "records", "record-bytes", "parent":
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    place = Place(**options.place)
    strategy = RUNGS[options.strategy].strategy  # imported before memory is limited
    parent = options.parent
    try:
        if place.shared_buffer == MPI:
            shared_buffer.world()
            parent = os.getppid()  # mpiexec
        rendezvous = Rendezvous(options.rendezvous, parent)
        links = Links(options.rendezvous, place.rank, place.ranks, parent)
        rendezvous.publish(f"ready.{place.rank}", os.getpid())
        rendezvous.wait_for("go")
        requests = StorageRequests()

        def until_counted() -> None:
            rendezvous.publish(f"measured.{place.rank}", None)
            rendezvous.wait_for("stop")

        found = measured(strategy, place, links, requests,
                         Records(options.records, options.record_bytes), until_counted)
    except (DataError, InputError, LinkLost, OSError, WrongRecord) as error:
        sys.exit(f"{options.strategy}, rank {options.place['rank']}: {error}")
    np.save(options.rendezvous / f"log.{place.rank}.npy", np.array(requests.log, np.int64))
    rendezvous.publish(f"done.{place.rank}", found)


def measured(kind: type[Strategy], place: Place, links: Links, requests: StorageRequests,
             records: Records, until_counted: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Seconds, of those in which it took its batch (`read_seconds`) and waited for the other ranks
    (`skew_seconds`), CPU time, context switches, and what was asked of the storage. What is read
    after `until_counted` belongs to none of it.

    Raises:
        WrongRecord: a record is not the one of this rank and iteration.
        DataError, InputError, LinkLost, OSError: the strategy cannot be used, or ended.
    """
    links.barrier()
    before, began = _used(), time.monotonic()
    strategy = kind(place, links, requests)
    opened = time.monotonic()
    batches, read_seconds, skew_seconds = strategy.batches(), 0.0, 0.0
    for iteration in range(place.iterations):
        start = time.monotonic()
        batch = next(batches, None)
        taken = time.monotonic()
        _compare(place, iteration, batch, records)
        links.barrier()
        read_seconds += taken - start
        skew_seconds += time.monotonic() - taken
    ended, after = time.monotonic(), _used()
    until_counted()
    strategy.account()
    links.barrier()  # none closes what others still use
    batches.close()
    strategy.close()
    return {"place": asdict(place), "seconds": ended - began, "open_seconds": opened - began,
            "read_seconds": read_seconds, "skew_seconds": skew_seconds,
            **{key: after[key] - before[key] for key in after}, **requests.counts()}


def _compare(place: Place, iteration: int, batch: Sequence[bytes] | None, records: Records) -> None:
    if batch is None:
        raise WrongRecord(f"no batch in iteration {iteration} of {place.iterations}")
    first = place.first(iteration, place.rank)
    wanted = [number % records.count for number in range(first, first + place.batch)]
    got = records.numbers(batch)
    if got != wanted:
        raise WrongRecord(f"iteration {iteration}: records {got[:4]} and so on, not {wanted[:4]}")


def _used() -> dict[str, float]:
    """Of this process, all its threads, and those of its children that have ended."""
    own, ended = (resource.getrusage(who) for who in
                  (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"cpu_seconds": sum(one.ru_utime + one.ru_stime for one in (own, ended)),
            "voluntary_switches": own.ru_nvcsw + ended.ru_nvcsw,
            "involuntary_switches": own.ru_nivcsw + ended.ru_nivcsw}


if __name__ == "__main__":
    main()
