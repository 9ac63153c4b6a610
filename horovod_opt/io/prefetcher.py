"""Running ahead of whoever asks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from typing import TypeVar

Item = TypeVar("Item")
LOOK_SECONDS = 0.5  # a wait of Python's hears of a signal only when it ends


def prefetch(items: Generator[Item, None, None], count: int) -> Generator[Item, None, None]:
    """The same items, `count` of them made ahead by a thread; closing the generator ends it."""
    ready: queue.Queue = queue.Queue(count)
    stop = threading.Event()

    def put(message: tuple) -> bool:
        while not stop.is_set():
            try:
                ready.put(message, timeout=LOOK_SECONDS)
                return True
            except queue.Full:
                continue
        return False

    def run() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((None, StopIteration()))
        except BaseException as error:
            put((None, error))
        finally:
            items.close()

    threading.Thread(target=run, name="hio-decode", daemon=True).start()
    try:
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item
    finally:
        stop.set()
