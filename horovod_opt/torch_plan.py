"""Plans for PyTorch, which has no graph before it runs (8.3.5): the gradients of a step.

hvd.DistributedOptimizer reduces the same gradients in every step: what the backward pass has not
computed, it adds in synchronize(). So the first step shows what there is; the order is that of the
parameters, last one first, the same on every rank. After some steps the ranks cut the buckets anew,
in the order in which gradients were seen to arrive.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import graph_analysis
from horovod_opt.native_plan import DTYPES, native_text
from horovod_opt.planner import Planner, bucket_bytes
from horovod_opt.region_file import write_region

planner: Planner | None = None  # in mode topo
_keys = itertools.count(1)

Record = dict[str, Any]  # what graph_analysis.read_dict() calls a collective


class GradientPlan:
    """The plan of one optimizer, whose parameters are `names` in the order of registration."""

    def __init__(self, native: Planner, title: str, names: Sequence[str]):
        self._native = native
        self._title = title
        self._order = {name: place for place, name in enumerate(reversed(names))}
        self._records: dict[str, Record] | None = {}  # None: recorded
        self._keys: dict[str, int] = {}

    def before_allreduce(self, name: str, tensor: Any, op: int, prescale: float,
                         postscale: float) -> None:
        """The gradient of `name`, a torch.Tensor as it is sent, is about to be reduced."""
        if self._records is None:
            if name in self._keys:
                self._native.use_key(self._keys[name])
            return
        self._records[name] = {
            "shape": list(tensor.shape), "dtype": str(tensor.dtype).partition(".")[2],
            "reduce_op": op, "prescale": prescale, "postscale": postscale,
        }

    def end_of_step(self) -> None:
        """All gradients of a step are reduced."""
        if not self._records:
            return
        records, self._records = self._records, None
        names = [name for name, record in records.items()
                 if name in self._order and record["dtype"] in DTYPES]
        names.sort(key=self._order.__getitem__)
        self._keys = {name: next(_keys) for name in names}
        plan = _plan(self._title, [(n, {**records[n], "key": self._keys[n]}) for n in names])
        if plan is not None:
            self._native.add(native_text(plan, bucket_bytes()))


def _plan(title: str, gradients: Iterable[tuple[str, Record]]) -> graph_analysis.Plan | None:
    """Independent allreduces in that order."""
    nodes: list[dict] = [{"name": "backward", "op": "Placeholder"}]
    for name, record in gradients:
        nodes.append({"name": f"allreduce.{name}", "op": "HorovodAllreduce",
                      "inputs": ["backward"], "collective": record})
    graph = graph_analysis.read_dict({
        "name": title, "nodes": nodes, "args": ["backward"],
        "fetches": [node["name"] for node in nodes[1:]],
    })
    (region,) = graph_analysis.analyze(graph, bucket_bytes()).regions
    folder = os.environ.get("HOROVOD_OPT_PLANS", "")
    if folder and planner is not None and planner.is_first_rank():
        write_region(region, Path(folder))
    return region.plan


def of(optimizer: Any) -> GradientPlan | None:
    """For a new hvd.DistributedOptimizer; None if nothing of it is planned: in another mode, in
    another process set, and with groups of parameters, which are negotiated as one."""
    if planner is None or optimizer.process_set.process_set_id != 0:
        return None
    if optimizer._groups is not None:
        return None
    names = [
        optimizer._parameter_names.get(parameter)
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad
    ]
    return GradientPlan(planner, f"DistributedOptimizer ({type(optimizer).__name__})", names)
