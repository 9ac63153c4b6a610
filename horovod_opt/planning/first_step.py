"""A script that is run for its plans alone ends before its first step: `horovod-opt plan`.

HOROVOD_OPT_PLANS_STOP=1 asks for it, beside HOROVOD_OPT_PLANS=folder. A rank leaves a file in the
folder that is named after its process. Where its first planned step would begin, it says so there
and waits to be killed: nothing of the script may run any more, not even a signal's handler.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from horovod_opt.planning.region_file import PLANS

STOP = "HOROVOD_OPT_PLANS_STOP"
_BEGUN, _STOPPED = "begun", "stopped"
_lock = threading.Lock()


def is_wanted() -> bool:
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


def stopped(folder: Path) -> int:
    """How many ranks have stopped."""
    return [file.read_text() for file in folder.glob("*.rank")].count(_STOPPED)


def kill(folder: Path) -> None:
    """Ends the ranks that left a file, on this host."""
    for file in folder.glob("*.rank"):
        try:
            os.kill(int(file.stem), signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended
