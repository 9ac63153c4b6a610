"""One rank of a benchmark job: with Horovod, or (given --rank and --ranks) without communication.

Ranks meet through files in --rendezvous, with Horovod as without, so that a measurement
begins in the same way and nothing but the workload itself uses Horovod.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import importlib
import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Timing:
    """What was measured: `seconds` a step, of the slowest rank, over `steps` steps. `counters` are
    what Horovod's counters of this rank grew by meanwhile; None if it has none."""

    seconds: float
    steps: int
    counters: dict[str, float] | None


class Rank:
    """Parses the command line and knows who the other ranks are after `init()`.

    `parser` has the options of the workload; their values are in `options`. `workload`: None: it is
    one of them.
    """

    def __init__(self, workload: str | None = None, framework: str = "tensorflow",
                 parser: argparse.ArgumentParser | None = None):
        parser = parser or argparse.ArgumentParser()
        parser.add_argument("--rendezvous", type=Path,
                            help="an empty directory that all ranks see; without it Horovod "
                                 "carries what the ranks tell each other")
        parser.add_argument("--seconds", type=float, default=5.0, help="length of the measurement")
        parser.add_argument("--rank", type=int, help="communicate with nobody: this rank's number")
        parser.add_argument("--ranks", type=int, help="and how many processes there are")
        self.options = parser.parse_args()
        self._workload: str = workload or self.options.workload
        self._framework = framework
        self._meetings = 0
        self.seconds: float = self.options.seconds
        self.uses_horovod: bool = self.options.rank is None
        self.hvd: Any | None = None
        self.rank: int = -1
        self.size: int = -1
        self.local_rank: int = -1

    def init(self, **arguments: Any) -> None:
        """`arguments` are those of hvd.init()."""
        if not self.uses_horovod:
            self.rank, self.size = self.options.rank, self.options.ranks
            self.local_rank = self.rank
            return
        hvd = importlib.import_module(f"horovod.{self._framework}")
        hvd.init(**arguments)
        self.hvd, self.rank, self.size = hvd, hvd.rank(), hvd.size()
        self.local_rank = hvd.local_rank()

    @property
    def rendezvous(self) -> Path:
        """A directory of this job's own."""
        return self.options.rendezvous

    def allgather(self, value: Any) -> list:
        """Every rank's value, by rank; also a barrier."""
        if self.rendezvous is None:
            return self.hvd.allgather_object(value)
        self._meetings += 1
        directory = self.rendezvous
        ready = [directory / f"{self._meetings}.{rank}" for rank in range(self.size)]
        unfinished = directory / f"unfinished.{self.rank}"
        unfinished.write_text(json.dumps(value))
        unfinished.rename(ready[self.rank])
        while not all(path.exists() for path in ready):
            time.sleep(0.005)
        return [json.loads(path.read_text()) for path in ready]

    def measure(self, step: Callable[[], Any], warm_up: int) -> Timing:
        """The means of steps that take about `seconds`, after `warm_up` of them and the first."""
        step()  # traces the graph
        self.allgather(None)
        once = max(self.allgather(_time(step, warm_up))) / warm_up
        steps = max(3, round(self.seconds / once))
        before = self._counters()
        self.allgather(None)
        seconds = _time(step, steps)
        after = self._counters()
        return Timing(max(self.allgather(seconds)) / steps, steps, before and {
            name: value - before[name] for name, value in after.items()
            if isinstance(value, (int, float))})

    def _counters(self) -> dict[str, Any] | None:
        """Those of horovod_opt; upstream's Horovod has none."""
        try:
            import horovod_opt
            return dataclasses.asdict(horovod_opt.stats(self._framework))
        except (ImportError, ValueError):
            return None

    def report(self, metrics: dict[str, Any], **per_rank: Any) -> None:
        """Rank 0 prints the job's result as one line of JSON, with every rank's values.

        These are `per_rank` and memory_mib, the peak of the rank's resident memory.
        """
        per_rank["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        by_rank = self.allgather(per_rank)
        if self.rank == 0:
            print(json.dumps({
                "workload": self._workload, "metrics": metrics, "mpi": _mpi_library(),
                "per_rank": {name: [values[name] for values in by_rank] for name in per_rank},
            }), flush=True)


def _time(step: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        step()
    return time.perf_counter() - start


def _mpi_library() -> str | None:
    """The MPI that Horovod has loaded, in its own words."""
    try:
        version = ctypes.CDLL(None).MPI_Get_library_version
    except AttributeError:
        return None
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
    version(text, ctypes.byref(length))
    return text.value.decode().splitlines()[0].split(",")[0].strip()
