"""Stand W, a warm page cache: what the pipelines cost where storage costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from horovod_opt.io.bench.stands.stand import Counters, Stand


class Warm(Stand):
    name = "warm"
    memory = None

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
