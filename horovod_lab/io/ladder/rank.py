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

        result = measure(strategy, place, links, requests,
                         Records(options.records, options.record_bytes), until_counted)
    except (DataError, InputError, LinkLost, OSError, WrongRecord) as error:
        sys.exit(f"{options.strategy}, rank {options.place['rank']}: {error}")
    np.save(options.rendezvous / f"log.{place.rank}.npy", np.array(requests.log, np.int64))
    rendezvous.publish(f"done.{place.rank}", result)


def measure(kind: type[Strategy], place: Place, links: Links, requests: StorageRequests,
            records: Records, until_counted: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Seconds, of those in which it took its batch (`read_seconds`) and waited for the other ranks
    (`skew_seconds`), CPU time, context switches, and what was asked of the storage. What is read
    after `until_counted` belongs to none of it.

    Raises:
        WrongRecord: a record is not the one of this rank and iteration.
        DataError, InputError, LinkLost, OSError: the strategy cannot be used, or ended.
    """
    links.barrier()
    before, begin = _usage(), time.monotonic()
    strategy = kind(place, links, requests)
    open_end = time.monotonic()
    batches, read_seconds, skew_seconds = strategy.batches(), 0.0, 0.0
    for iteration in range(place.iterations):
        start = time.monotonic()
        batch = next(batches, None)
        read_end = time.monotonic()
        _compare(place, iteration, batch, records)
        links.barrier()
        read_seconds += read_end - start
        skew_seconds += time.monotonic() - read_end
    end, after = time.monotonic(), _usage()
    until_counted()
    strategy.account()
    links.barrier()  # none closes what others still use
    batches.close()
    strategy.close()
    return {"place": asdict(place), "seconds": end - begin, "open_seconds": open_end - begin,
            "read_seconds": read_seconds, "skew_seconds": skew_seconds,
            **{key: after[key] - before[key] for key in after}, **requests.counts()}


def _compare(place: Place, iteration: int, batch: Sequence[bytes] | None, records: Records) -> None:
    if batch is None:
        raise WrongRecord(f"no batch in iteration {iteration} of {place.iterations}")
    first = place.first(iteration, place.rank)
    right_numbers = [number % records.count for number in range(first, first + place.batch)]
    numbers = records.numbers(batch)
    if numbers != right_numbers:
        raise WrongRecord(f"iteration {iteration}: records {numbers[:4]} and so on, not "
                          f"{right_numbers[:4]}")


def _usage() -> dict[str, float]:
    """Of this process, all its threads, and those of its children that have ended."""
    process, children = (resource.getrusage(who) for who in
                  (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"cpu_seconds": sum(usage.ru_utime + usage.ru_stime for usage in (process, children)),
            "voluntary_switches": process.ru_nvcsw + children.ru_nvcsw,
            "involuntary_switches": process.ru_nivcsw + children.ru_nivcsw}


if __name__ == "__main__":
    main()
