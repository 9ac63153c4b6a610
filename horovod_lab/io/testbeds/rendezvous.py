"""What the processes of a job tell each other: files of JSON in a folder of the job's own."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Optional

LOOK_SECONDS = 0.005


class Meeting:
    """`parent`: the process that started this one, which ends when that is gone: nobody would end
    it later. None: it began by itself."""

    def __init__(self, folder: Path, parent: Optional[int]):
        self._folder, self._parent = folder, parent

    def tell(self, name: str, value: Any) -> None:
        """Once; `value` is what JSON can hold."""
        unfinished = self._folder / f"{name}.unfinished"
        unfinished.write_text(json.dumps(value))
        unfinished.rename(self._folder / name)

    def stay(self) -> None:
        """Ends this process if its parent is gone."""
        if self._parent is not None and os.getppid() != self._parent:
            sys.exit("the benchmark that started this process has ended")

    def told(self, name: str) -> bool:
        self.stay()
        return (self._folder / name).exists()

    def told_by_all(self, name: str, ranks: int) -> bool:
        return all(self.told(f"{name}.{rank}") for rank in range(ranks))

    def hear(self, name: str) -> Any:
        """Waits for it; whoever started the job ends it if that takes too long."""
        while not self.told(name):
            time.sleep(LOOK_SECONDS)
        return json.loads((self._folder / name).read_text())

    def hear_all(self, name: str, ranks: int) -> list[Any]:
        """What each rank tells under this name, by rank."""
        return [self.hear(f"{name}.{rank}") for rank in range(ranks)]
