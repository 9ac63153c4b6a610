"""Stand W, a warm page cache: what the pipelines cost where storage costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from horovod_lab.io.testbeds.stand import Counters, NoStand, Stand


class Warm(Stand):
    name = "warm"
    memory = None

    @classmethod
    def check(cls, nodes: int) -> None:
        if nodes > 1:
            raise NoStand(f"--stand {cls.name} is one node, not {nodes}; remedy: --nodes 1")

    def _make(self, stack: ExitStack) -> None:
        pass

    def command(self, node: int, argv: Sequence[str], network: bool = True) -> list[str]:
        return list(argv)

    def begin(self) -> None:
        pass

    def counters(self) -> Counters:
        return Counters()

    def release(self) -> None:
        pass

    def killed_for_memory(self) -> int:
        return 0
