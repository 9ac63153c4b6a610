"""LMDBIO's strategies, and what this project's users get beside them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horovod_lab.io.strategies.strategy import Strategy


@dataclass(frozen=True)
class Rung:
    """`module`: with its class. `section`: of the dissertation; "" for this project's reader, which
    does not say what it asks for."""

    name: str
    label: str
    module: str
    section: str = ""

    @property
    def strategy(self) -> type[Strategy]:
        module = importlib.import_module(f"{__name__}.{self.module}")
        return getattr(module, self.name.title())


RUNGS = {rung.name: rung for rung in (
    Rung("lmdb", "LMDB", "strided_cursor", "3.1"), Rung("lmm", "LMM", "strided_cursor", "3.2"),
    Rung("dm", "DM", "distributed_memory", "4.2"), Rung("dio", "DIO", "direct_io", "5.2.1"),
    Rung("prov", "PROV", "direct_io", "5.2.2"), Rung("coal", "COAL", "coalescing", "5.2.3"),
    Rung("stag", "STAG", "coalescing", "5.2.4"), Rung("hio", "hio", "hio"),
)}
