"""What all loaders of this process have taken and waited for, for horovod_opt.stats()."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping

# By the counter of horovod_opt.Stats: the name in Reading.stats().
COUNTERS = {"input_samples": "samples", "input_bytes": "bytes",
            "input_samples_from_storage": "samples_from_storage",
            "input_wait_seconds": "training_wait_seconds", "input_node_bytes": "node_bytes_read",
            "input_node_requests": "node_requests"}

_lock = threading.Lock()
_by_reading: dict[int, Mapping[str, float]] = {}


def publish(reading: int, stats: Mapping[str, float]) -> None:
    """The latest of one loader. Goes to Horovod's counters, if this process has any."""
    with _lock:
        _by_reading[reading] = stats
        runtime = sys.modules.get("horovod_opt.runtime")
        if runtime is None:
            return
        runtime.set_input({
            counter: sum(one.get(name, 0) for one in _by_reading.values())
            for counter, name in COUNTERS.items()})
