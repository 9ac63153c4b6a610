"""The kinds of training step, what is compared for each, and the order of the jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from horovod_lab.bench.overhead.workloads import PROGRAMS
from horovod_lab.bench.worker_job import BASE, LIMIT, YIELDING, Series
from horovod_lab.measuring.comparison import in_rounds, ratio


@dataclass(frozen=True)
class Kind:
    """`program`: a file of workers/ and its arguments; `key`: of its result, whose `unit` is shown;
    `limit`: whether it is also measured without communication."""

    name: str
    label: str
    program: Sequence[str]
    key: str = "steps_per_second"
    unit: str = "steps/s"
    higher_is_better: bool = True
    limit: bool = False

    @property
    def speed(self) -> Callable[[float, float], float | None]:
        """How many times as fast as with the second value a step is with the first."""
        return ratio if self.higher_is_better else lambda value, base: ratio(base, value)


KINDS = {kind.name: kind for kind in (
    Kind("resnet50", "ResNet50", PROGRAMS["resnet50"], "images_per_second", "images/s", limit=True),
    Kind("text", "text model", ("dense.py", "text")),
    Kind("text_torch", "text model, PyTorch", ("dense_torch.py", "text_torch")),
    Kind("transformer_torch", "transformer, bfloat16, PyTorch", ("transformer_torch.py",)),
    Kind("sync_batch_norm_torch", "SyncBatchNorm, PyTorch", ("sync_batch_norm_torch.py",)),
    Kind("process_sets_torch", "process sets, PyTorch", ("dense_torch.py", "process_sets_torch")),
    Kind("groups", "num_groups", ("dense.py", "groups")),
    Kind("groups_torch", "num_groups, PyTorch", ("dense_torch.py", "groups_torch")),
    Kind("zero1_torch", "ZeRO-1, PyTorch", ("zero1_torch.py",)),
    Kind("small", "160 tensors of 1 KiB", PROGRAMS["small"], "milliseconds", "ms", False),
    Kind("chain", "one of 20 dependent allreduces", PROGRAMS["chain"], "microseconds", "us", False),
)}
# What topo has to be as fast as.
OTHERS = (BASE, YIELDING.name, "gs", "nbcs")
TOPO = "topo"
MODES = "gs,nbcs,topo"  # measured beside off and the tuned off unless the user names others


@dataclass(frozen=True)
class Job:
    round: int
    kind: Kind
    ranks: int
    series: Series

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "step": self.kind.name, "ranks": self.ranks,
                "series": self.series.name}

    def __str__(self) -> str:
        return (f"round {self.round + 1}  {self.kind.label}  {self.ranks} ranks  "
                f"{self.series.name}")


def order(names: Sequence[str], modes: Sequence[Series], ranks: Sequence[int], rounds: int,
          cores: int) -> list[Job]:
    """Those of the kinds `names`; beside `modes` off and the tuned off are always measured."""
    def series(cell: tuple[Kind, int]) -> list[Series]:
        kind, count = cell
        limit = [Series(LIMIT, communicates=False)] if kind.limit else []
        return [*limit, Series(BASE), YIELDING,
                *(mode for mode in modes
                  if mode.name != YIELDING.name and mode.fits(count, cores))]

    cells = [(KINDS[name], count) for count in ranks for name in names]
    return [Job(number, *cell, way) for number, cell, way in in_rounds(cells, series, rounds)]
