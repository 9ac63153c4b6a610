"""LMDBIO's strategies, a file each, and what this project's users get beside them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horovod_opt.io.bench.strategies.strategy import Strategy


@dataclass(frozen=True)
class Rung:
    """`section`: of the dissertation; `removes`: what of the rung before."""

    name: str
    label: str
    section: str
    removes: str

    @property
    def strategy(self) -> type[Strategy]:
        module = importlib.import_module(f"{__name__}.{self.name}")
        return getattr(module, self.name.capitalize())


RUNGS = {one.name: one for one in (
    Rung("lmdb", "LMDB", "3.1", ""),
    Rung("lmm", "LMM", "3.2", "all readers of a node but one"),
    Rung("dm", "DM", "4.2", "other nodes' records from the seek"),
    Rung("dio", "DIO", "5.2.1", "page faults from the reading"),
    Rung("prov", "PROV", "5.2.2", "the seek"),
    Rung("coal", "COAL", "5.2.3", "small requests"),
    Rung("stag", "STAG", "5.2.4", "requests out of order"),
    Rung("hio", "hio", "", ""),
)}
