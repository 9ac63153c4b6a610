"""LMDBIO's strategies, a file each, and what this project's users get beside them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horovod_lab.io.strategies.strategy import Strategy


@dataclass(frozen=True)
class Rung:
    """`section`: of the dissertation; "" for this project's reader, which does not say what it
    asks for."""

    name: str
    label: str
    section: str = ""

    @property
    def strategy(self) -> type[Strategy]:
        module = importlib.import_module(f"{__name__}.{self.name}")
        return getattr(module, self.name.title())


RUNGS = {one.name: one for one in (
    Rung("lmdb", "LMDB", "3.1"), Rung("lmm", "LMM", "3.2"), Rung("dm", "DM", "4.2"),
    Rung("dio", "DIO", "5.2.1"), Rung("prov", "PROV", "5.2.2"), Rung("coal", "COAL", "5.2.3"),
    Rung("stag", "STAG", "5.2.4"), Rung("hio", "hio"),
)}
