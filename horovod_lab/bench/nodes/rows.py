"""What is measured between nodes: layouts of nodes and ranks, workloads, and the order of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from horovod_lab.bench.overhead.workloads import PROGRAMS
from horovod_lab.bench.worker_job import BASE, LIMIT, YIELDING, Series
from horovod_lab.measuring.comparison import in_rounds, ratio


@dataclass(frozen=True)
class Layout:
    """So many virtual hosts with so many ranks each, which send `megabits` a second at most."""

    hosts: int
    per_host: int
    megabits: float | None = None

    @property
    def ranks(self) -> int:
        return self.hosts * self.per_host

    @property
    def name(self) -> str:
        limit = "" if self.megabits is None else f"@{self.megabits:g}"
        return f"{self.hosts}x{self.per_host}{limit}"

    def __str__(self) -> str:
        limit = "" if self.megabits is None else f", {self.megabits:g} Mbit/s"
        return f"{self.hosts} node{'s' * (self.hosts > 1)} of {self.per_host}{limit}"


@dataclass(frozen=True)
class Workload:
    """`program`: a file of workers/ and its arguments; `key`: of its result, shown in `unit`."""

    name: str
    label: str
    program: Sequence[str]
    key: str
    unit: str
    higher_is_better: bool

    @property
    def speed(self) -> Callable[[float, float], float | None]:
        """How many times as fast as with the second value it is with the first."""
        return ratio if self.higher_is_better else lambda value, base: ratio(base, value)


@dataclass(frozen=True)
class Way:
    """A mode, and who controls the ranks: --mpi or --gloo, of horovodrun."""

    name: str
    series: Series
    controller: str = "--mpi"


TOPO, TOPO_GLOO, TOPO_BF16 = "topo", "topo, Gloo", "topo, bf16"
OFF_GLOO = f"{BASE}, Gloo"
OTHERS = (YIELDING.name, OFF_GLOO)  # the best that there is without topo

_TOPO = Series(TOPO, TOPO)
WAYS = {way.name: way for way in (
    Way(LIMIT, Series(LIMIT, communicates=False)),
    Way(YIELDING.name, YIELDING),
    Way(OFF_GLOO, Series(BASE), "--gloo"),
    Way(TOPO, _TOPO),
    Way(TOPO_GLOO, _TOPO, "--gloo"),
    Way(TOPO_BF16, Series(TOPO, TOPO, arguments=("--bf16",))),
)}

PAIR, PAIR_SLOW, ONE_NODE = Layout(2, 1), Layout(2, 1, 1000), Layout(1, 2)
SIZE_LARGE = 102_400_000  # bytes: the gradients of ResNet50
WORKLOADS = {workload.name: workload for workload in (
    Workload("resnet50", "ResNet50", PROGRAMS["resnet50"], "images_per_second", "images/s", True),
    Workload("large", "allreduce of 102 MB", ("allreduces.py", "chain", "--length", "1",
                                              "--bytes", str(SIZE_LARGE)),
             "microseconds", "us", False),
    Workload("small", "allreduce of 1 KiB", PROGRAMS["chain"], "microseconds", "us", False),
    Workload("idle", "idle CPU of a rank", PROGRAMS["idle"], "background_percent",
             "% of a core", False),
)}
# By workload and layout: what is compared.
CELLS: dict[tuple[str, Layout], Sequence[str]] = {
    ("resnet50", PAIR): (LIMIT, *OTHERS, TOPO, TOPO_GLOO),
    ("large", PAIR): (*OTHERS, TOPO, TOPO_GLOO),
    ("large", ONE_NODE): (TOPO,),  # without messages: docs/lab/simulation-validation.md
    ("small", PAIR): (*OTHERS, TOPO, TOPO_GLOO),
    ("idle", PAIR): (*OTHERS, TOPO, TOPO_GLOO),
    ("resnet50", PAIR_SLOW): (LIMIT, *OTHERS, TOPO, TOPO_BF16),
    ("resnet50", Layout(4, 1)): (*OTHERS, TOPO),
    ("resnet50", Layout(2, 2)): (*OTHERS, TOPO),
    ("resnet50", Layout(4, 2)): (*OTHERS, TOPO),
}
LAYOUTS = {layout.name: layout for _, layout in CELLS}


@dataclass(frozen=True)
class Job:
    round: int
    workload: Workload
    layout: Layout
    way: Way = field(compare=False)

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "workload": self.workload.name, "layout": self.layout.name,
                "series": self.way.name}

    def __str__(self) -> str:
        return (f"round {self.round + 1}  {self.workload.label}  {self.layout}  "
                f"{self.way.name}")


def order(workloads: Sequence[str], layouts: Sequence[str], rounds: int) -> list[Job]:
    """Of the cells of these workloads and layouts."""
    cells = [cell for cell in CELLS if cell[0] in workloads and cell[1].name in layouts]
    return [Job(number, WORKLOADS[workload], layout, WAYS[way])
            for number, (workload, layout), way in in_rounds(cells, CELLS.__getitem__, rounds)]
