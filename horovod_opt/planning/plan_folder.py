"""The folder that HOROVOD_OPT_PLANS names: the regions that a job has planned, and its ranks.

HOROVOD_OPT_PLANS_STOP=1 beside it: a script that is run for its plans alone ends before its first
step, as under `horovod-opt plan`. A rank leaves a file in the folder that is named after its
process. Where its first planned step would begin, it says so there and waits to be killed: nothing
of the script may run any more, not even a signal's handler.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from pathlib import Path

from graph_analysis import Negotiated, Plan, Region

PLANS = "HOROVOD_OPT_PLANS"
STOP = "HOROVOD_OPT_PLANS_STOP"
_BEGUN, _STOPPED = "begun", "stopped"

_numbers = itertools.count()
_lock = threading.Lock()


# Regions


def write_region(region: Region, folder: Path) -> None:
    """A file with the next number, whole or not at all: a job may be killed at any time."""
    file = folder / f"{next(_numbers):04d}.json"
    part = file.with_suffix(".part")
    part.write_text(json.dumps({
        "name": region.name,
        "plan": region.plan and json.loads(region.plan.to_json()),
        "unplanned": region.unplanned,
        "reason": region.reason,
    }, indent=1))
    part.rename(file)


def read_region(file: Path) -> Region:
    content = json.loads(file.read_text())
    plan = content["plan"] and Plan.from_json(json.dumps(content["plan"]))
    unplanned = tuple(Negotiated(*fields) for fields in content["unplanned"])
    return Region(content["name"], plan, unplanned, content["reason"])


# Ranks


def stops_before_step() -> bool:
    """Whether this process is run for its plans alone."""
    return bool(os.environ.get(PLANS)) and os.environ.get(STOP) == "1"


def announce() -> None:
    """For a rank that starts."""
    _note(_BEGUN)


def stop() -> None:
    """For a rank whose first planned step would begin. Does not return."""
    _note(_STOPPED)
    while True:
        time.sleep(3600)


def _note(state: str) -> None:
    file = Path(os.environ[PLANS]) / f"{os.getpid()}.rank"
    part = file.with_suffix(".part")
    with _lock:
        part.write_text(state)
        part.replace(file)


def count_stopped(folder: Path) -> int:
    """How many ranks have stopped."""
    return [file.read_text() for file in folder.glob("*.rank")].count(_STOPPED)


def kill(folder: Path) -> None:
    """Ends the ranks that left a file, on this host."""
    for file in folder.glob("*.rank"):
        try:
            os.kill(int(file.stem), signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended
