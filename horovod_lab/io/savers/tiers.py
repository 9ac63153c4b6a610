"""How much of a training's time its checkpoints take, on two storages of known speeds.

    python -m horovod_lab.io.savers.tiers WAY FAST SLOW BYTES VERSIONS SECONDS

A training that sleeps SECONDS, and saves a version of BYTES, VERSIONS times. Prints JSON:
`lost_seconds`, that saving has kept it from training; `durable_seconds` from the first version's
begin until it is durable in SLOW, or in FAST if that is a storage; `whole_seconds`, until all is.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import horovod_opt.io as hio
from horovod_lab.io.savers import ASYNC, DIRECT
from horovod_opt.io.checkpoints.files import sync


class Direct:
    """As the source's, which syncs when the saver has returned."""

    def __init__(self, fast: Path, slow: Path):
        self._slow = slow

    def save(self, state: Any, step: int) -> Callable[[], None]:
        import torch

        path = self._slow / f"{step}.pt"
        torch.save(state, path)
        sync(path)
        sync(self._slow)
        if step > 1:
            (self._slow / f"{step - 1}.pt").unlink()
        return lambda: None

    def close(self) -> None:
        """Nothing is under way."""


class Burst:
    def __init__(self, fast: Path, slow: Path):
        self._slow, self._buffer = slow, hio.BurstBuffer(fast, slow / "job", keep=1)
        self._is_durable = not str(fast).startswith("/dev/shm")

    def save(self, state: Any, step: int) -> Callable[[], None]:
        import torch

        with self._buffer.save(step) as folder:
            torch.save(state, folder / "state.pt")
        return (lambda: None) if self._is_durable else lambda: self._wait(step)

    def _wait(self, step: int) -> None:
        while not (self._slow / "job" / str(step) / "0").exists():
            time.sleep(0.05)

    def close(self) -> None:
        self._buffer.close()


class Async:
    """Each in a folder of its own; the next save waits for the one before, as is documented."""

    def __init__(self, fast: Path, slow: Path):
        import torch.distributed as dist

        self._slow, self._last = slow, None
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def save(self, state: Any, step: int) -> Callable[[], None]:
        import torch.distributed.checkpoint as dcp

        if self._last is not None:
            self._last.result()
        self._last = dcp.async_save(state, checkpoint_id=self._slow / f"{step}")
        return self._last.result

    def close(self) -> None:
        self._last.result()


def main(way: str, fast: str, slow: str, size: str, versions: str, seconds: str) -> None:
    import torch

    state = {"weight": torch.rand(int(size) // 4)}
    saver = {DIRECT: Direct, ASYNC: Async}.get(way, Burst)(Path(fast), Path(slow))
    begin, lost, durable = time.monotonic(), 0.0, []

    def note(wait: Callable[[], None], start: float) -> None:
        wait()
        durable.append(time.monotonic() - start)

    for step in range(1, int(versions) + 1):
        time.sleep(float(seconds))  # the training, on its accelerator
        state["weight"] += 1
        start = time.monotonic()
        wait = saver.save(state, step)
        lost += time.monotonic() - start
        if step == 1:
            first = threading.Thread(target=note, args=(wait, start))
            first.start()
    first.join()
    saver.close()
    print(json.dumps({"lost_seconds": lost, "durable_seconds": durable[0],
                      "whole_seconds": time.monotonic() - begin}))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
