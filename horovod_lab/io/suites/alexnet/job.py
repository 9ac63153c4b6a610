"""A job of the suite alexnet: one training on its storages, and what they did in each second."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from horovod_lab.io.environment import ELSEWHERE
from horovod_lab.io.suites.alexnet.results import BURST, FAST, SLOW, SPEEDS
from horovod_lab.io.suites.stream.job import environment
from horovod_lab.io.testbeds.crashing_storage import CrashingStorage
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_lab.io.testbeds.testbed import Testbed, WarmCache
from horovod_lab.measuring import launch

TRAINING = "horovod_lab.io.suites.alexnet.training"
CAPACITY = 4 << 30
SECOND = 1.0

# By name of a storage: bytes that went through it so far.
Meters = dict[str, Callable[[], int]]


def run(testbed: Testbed, options: dict[str, Any], way: str, timeout: float) -> dict[str, Any]:
    """What the process of these training.Options found, and `traces`: of each storage, MB in each
    second from the first batch on. `way`: a part of results.PARTS, by which tiers are made.

    Raises:
        launch.JobFailed: it failed or took too long; nothing of the job is left running.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="horovod-io-bench-"))
        meters: Meters = {}
        tiers = {FAST: (FAST,), SLOW: (SLOW,), BURST: (FAST, SLOW)}.get(way, ())
        for name in tiers:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            storage = stack.enter_context(CrashingStorage(
                place, is_paced=True, capacity=CAPACITY, bandwidth=SPEEDS[name], keeps_cache=True))
            options = {**options, name if way == BURST else SLOW: str(storage.path())}
            meters[name] = lambda storage=storage: storage.counters().written_bytes
        is_cold = not isinstance(testbed, WarmCache)
        if is_cold:
            meters["read"] = lambda: testbed.counters().bytes
        command = [sys.executable, "-m", TRAINING, str(testbed.folder),
                   json.dumps({**options, "cold": is_cold}), folder, str(os.getpid())]
        traces: dict[str, list[float]] = {name: [] for name in meters}
        rendezvous = Rendezvous(Path(folder), None)
        # The folders of tiers are seen in no node's namespace: only cold data is read in one.
        launch.execute([testbed.command(0, command) if is_cold else command], environment(),
                       timeout, ELSEWHERE, _trace(rendezvous, meters, traces))
        return {**rendezvous.wait_for("done"), "traces": traces}


def _trace(rendezvous: Rendezvous, meters: Meters, traces: dict[str, list[float]]
           ) -> Iterator[None]:
    while not rendezvous.has("ready"):
        yield
    before = {name: meter() for name, meter in meters.items()}
    rendezvous.publish("go", None)
    last = time.monotonic()
    while True:
        is_done = rendezvous.has("done")
        now = time.monotonic()
        if now - last >= SECOND or is_done:
            for name, meter in meters.items():
                size = meter()
                traces[name].append((size - before[name]) / 1e6 / (now - last))
                before[name] = size
            last = now
        yield
        if is_done:
            return
