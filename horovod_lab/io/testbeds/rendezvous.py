"""What the processes of a job tell each other: files of JSON in a folder of the job's own."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Optional

POLL_SECONDS = 0.005


class Rendezvous:
    """`parent`: the process that started this one, which ends when that is gone: nobody would end
    it later. None: it began by itself."""

    def __init__(self, folder: Path, parent: Optional[int]):
        self._folder, self._parent = folder, parent

    def publish(self, name: str, value: Any) -> None:
        """Once; `value` is what JSON can hold."""
        draft = self._folder / f"{name}.unfinished"
        draft.write_text(json.dumps(value))
        draft.rename(self._folder / name)

    def check_parent(self) -> None:
        """Ends this process if its parent is gone."""
        if self._parent is not None and os.getppid() != self._parent:
            sys.exit("the benchmark that started this process has ended")

    def has(self, name: str) -> bool:
        self.check_parent()
        return (self._folder / name).exists()

    def has_all(self, name: str, ranks: int) -> bool:
        return all(self.has(f"{name}.{rank}") for rank in range(ranks))

    def wait_for(self, name: str) -> Any:
        """Waits for it; whoever started the job ends it if that takes too long."""
        while not self.has(name):
            time.sleep(POLL_SECONDS)
        return json.loads((self._folder / name).read_text())

    def wait_for_all(self, name: str, ranks: int) -> list[Any]:
        """What each rank tells under this name, by rank."""
        return [self.wait_for(f"{name}.{rank}") for rank in range(ranks)]
