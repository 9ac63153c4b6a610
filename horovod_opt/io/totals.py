"""What all loaders of this process have taken and waited for, for horovod_opt.stats()."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Mapping

# By the counter of horovod_opt.Stats: the name in StepSource.stats().
COUNTERS = {"input_samples": "samples", "input_bytes": "bytes",
            "input_samples_from_storage": "samples_from_storage",
            "input_wait_seconds": "training_wait_seconds", "input_node_bytes": "node_bytes_read",
            "input_node_requests": "node_requests"}

_lock = threading.Lock()
_stats: list[Mapping[str, float]] = []  # by the number of the loader
_publishers: list[weakref.WeakMethod] = []  # the same; they call publish()


def add(publisher: Callable[[], None]) -> int:
    """The number of a new loader, whose method `publisher` calls publish() with it; the loader may
    end meanwhile."""
    with _lock:
        _stats.append({})
        _publishers.append(weakref.WeakMethod(publisher))
        return len(_stats) - 1


def publish(number: int, stats: Mapping[str, float]) -> None:
    """The latest of one loader. Goes to Horovod's counters, if this process has any."""
    with _lock:
        _stats[number] = stats
        runtime = sys.modules.get("horovod_opt.runtime")
        if runtime is None:
            return
        runtime.set_input({counter: sum(loader_stats.get(name, 0) for loader_stats in _stats)
                           for counter, name in COUNTERS.items()})


def refresh() -> None:
    """Asks all loaders for their latest."""
    for publisher in list(_publishers):
        publish = publisher()
        if publish is not None:
            publish()
