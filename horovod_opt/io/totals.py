"""What all loaders of this process have taken and waited for, for horovod_opt.stats()."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from itertools import count

# By the counter of horovod_opt.Stats: the name in LoaderStats.now().
COUNTERS = {"input_samples": "samples", "input_bytes": "bytes",
            "input_samples_from_storage": "samples_from_storage",
            "input_wait_seconds": "training_wait_seconds", "input_node_bytes": "node_bytes_read",
            "input_node_requests": "node_requests", "input_again_bytes": "node_again_bytes",
            "input_kept_bytes": "kept_bytes", "input_peer_bytes": "peer_bytes",
            "input_peer_requests": "peer_requests", "input_served_bytes": "served_bytes",
            "input_fallback_bytes": "fallback_bytes"}

_lock = threading.Lock()
_numbers = count()
_stats: dict[int, Mapping[str, float]] = {}  # by the number of the loader
_publishers: dict[int, weakref.WeakMethod] = {}  # the same; they call publish()
_ended: dict[str, float] = {}  # of the loaders that have


def add(publisher: Callable[[], None]) -> int:
    """The number of a new loader, whose method `publisher` calls publish() with it."""
    with _lock:
        number = next(_numbers)
        _stats[number] = {}
        _publishers[number] = weakref.WeakMethod(publisher)
        return number


def publish(number: int, stats: Mapping[str, float]) -> None:
    """The latest of one loader. Goes to Horovod's counters, if this process has any."""
    with _lock:
        if number in _stats:
            _stats[number] = stats
            _tell()


def end(number: int, stats: Mapping[str, float]) -> None:
    """The same, and the last of it: the loader ends."""
    with _lock:
        del _stats[number], _publishers[number]
        for name, value in stats.items():
            _ended[name] = _ended.get(name, 0) + value
        _tell()


def add_wait(begin: int, end: int) -> None:
    """The training has waited for a batch so long, as time.monotonic_ns(): where every rank has a
    timeline, it is in there."""
    runtime = sys.modules.get("horovod_opt.runtime")
    if runtime is not None and runtime.has_spans:
        runtime.add_input_span("waits for a batch", begin, end)


def _tell() -> None:
    runtime = sys.modules.get("horovod_opt.runtime")
    if runtime is not None:
        runtime.set_input({counter: sum(stats.get(name, 0) for stats in (_ended, *_stats.values()))
                           for counter, name in COUNTERS.items()})


def refresh() -> None:
    """Asks all loaders for their latest."""
    for publisher in list(_publishers.values()):
        publish_latest = publisher()
        if publish_latest is not None:
            publish_latest()
