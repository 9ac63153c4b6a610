"""One rank of a benchmark job: with Horovod, or (given --rank and --ranks) without communication.

Ranks meet through files in --rendezvous, with Horovod as without, so that the measured window is
entered in the same way and nothing but the workload itself uses Horovod.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class Rank:
    """Parses the command line and knows who the other ranks are after `init()`.

    `flags` are names of further options without a value, in `self.flags` true if given.
    """

    def __init__(self, workload: str, framework: str = "tensorflow", flags: Sequence[str] = ()):
        parser = argparse.ArgumentParser()
        parser.add_argument("--rendezvous", type=Path, required=True, help="an empty directory")
        parser.add_argument("--seconds", type=float, default=5.0, help="length of the measurement")
        parser.add_argument("--rank", type=int, help="communicate with nobody: this rank's number")
        parser.add_argument("--ranks", type=int, help="and how many processes there are")
        for flag in flags:
            parser.add_argument(f"--{flag}", action="store_true", dest=flag)
        self._arguments = parser.parse_args()
        self._workload = workload
        self._framework = framework
        self.flags = {flag: getattr(self._arguments, flag) for flag in flags}
        self._exchanges = 0
        self.seconds: float = self._arguments.seconds
        self.uses_horovod: bool = self._arguments.rank is None
        self.hvd: Any | None = None
        self.rank: int = -1
        self.size: int = -1

    def init(self) -> None:
        if not self.uses_horovod:
            self.rank, self.size = self._arguments.rank, self._arguments.ranks
            return
        hvd = importlib.import_module(f"horovod.{self._framework}")
        hvd.init()
        self.hvd, self.rank, self.size = hvd, hvd.rank(), hvd.size()

    @property
    def rendezvous(self) -> Path:
        """A directory of this job's own."""
        return self._arguments.rendezvous

    def exchange(self, value: Any) -> list:
        """Every rank's value, by rank; also a barrier."""
        self._exchanges += 1
        directory = self.rendezvous
        ready = [directory / f"{self._exchanges}.{rank}" for rank in range(self.size)]
        unfinished = directory / f"unfinished.{self.rank}"
        unfinished.write_text(json.dumps(value))
        unfinished.rename(ready[self.rank])
        while not all(path.exists() for path in ready):
            time.sleep(0.005)
        return [json.loads(path.read_text()) for path in ready]

    def seconds_per_step(self, step: Callable[[], Any], warm_up: int) -> float:
        """Mean over a window of about `seconds`; of the slowest rank."""
        step()  # traces the graph
        self.exchange(None)
        once = max(self.exchange(_time(step, warm_up))) / warm_up
        steps = max(3, round(self.seconds / once))
        return max(self.exchange(_time(step, steps))) / steps

    def report(self, metrics: dict[str, float], **per_rank: float) -> None:
        """Rank 0 prints the job's result as one line of JSON, with every rank's values.

        These are `per_rank` and memory_mib, the peak of the rank's resident memory.
        """
        per_rank["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        by_rank = self.exchange(per_rank)
        if self.rank == 0:
            print(json.dumps({
                "workload": self._workload, "metrics": metrics, "mpi": _mpi_library(),
                "per_rank": {name: [one[name] for one in by_rank] for name in per_rank},
            }), flush=True)


def _time(step: Callable[[], Any], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        step()
    return time.perf_counter() - started


def _mpi_library() -> str | None:
    """The MPI that Horovod has loaded, in its own words."""
    try:
        version = ctypes.CDLL(None).MPI_Get_library_version
    except AttributeError:
        return None
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
    version(text, ctypes.byref(length))
    return text.value.decode().splitlines()[0].split(",")[0].strip()
