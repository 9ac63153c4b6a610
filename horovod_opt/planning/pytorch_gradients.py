"""Plans for PyTorch, which has no graph before it runs (8.3.5): the gradients of a step.

hvd.DistributedOptimizer reduces the gradients of all its parameters in every step: what the
backward pass has not computed, it adds in synchronize(). So they are known before the first step;
the order is that of the parameters, last one first, the same on every rank. After some steps the
ranks rebuild the buckets in the order in which gradients were seen to arrive.

A plan has to be known before its first gradient arrives, on every rank: iterations are counted.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import graph_analysis
from graph_analysis.bucket_sizes import GPU
from graph_analysis.reductions import AVERAGE, DTYPES
from horovod_opt.native.plan_text import native_text
from horovod_opt.planning import plan_folder
from horovod_opt.planning.planner import Planner, bucket_limits

planner: Planner | None = None  # in mode topo
NO_KEY = 0, 0
ON_GPU = "cuda"  # what PyTorch calls NVIDIA's and AMD's
_keys = itertools.count(1)
_steps = itertools.count(1)

# What graph_analysis.read_dict() calls a collective, and "order": of the dimensions in memory.
Record = dict[str, Any]


class GradientPlan:
    """The plan of one optimizer. `gradients`: name and record of each, in order."""

    def __init__(self, native: Planner, title: str, gradients: Sequence[tuple[str, Record]]):
        self._native = native
        self._title = title
        self._keys: dict[str, int] = {}
        self._step = 0  # none has begun
        self._add(gradients)

    def _add(self, gradients: Sequence[tuple[str, Record]]) -> None:
        gradients = [(name, record) for name, record in gradients if record["dtype"] in DTYPES]
        self._keys.update((name, next(_keys)) for name, _ in gradients)
        plan = _plan(self._native, self._title, [(name, {**record, "key": self._keys[name]})
                                                 for name, record in gradients])
        if plan is not None:
            text = native_text(plan, bucket_limits())
            self._native.add(text)
            # It lives as long as the optimizer that holds it.
            weakref.finalize(self, self._native.remove, text).atexit = False
        self._stop = plan_folder.stops_before_step()

    def extend(self, optimizer: Any, parameters: Iterable[Any]) -> None:
        """Parameters whose gradients the optimizer reduces from now on: a plan of their own."""
        self._add(_gradients(self._native, optimizer, parameters))

    def key_of(self, name: str) -> tuple[int, int]:
        """What the allreduce of the gradient of `name` has as `opt_key` and `opt_step`."""
        if not self._is_planned(name):
            return NO_KEY
        self._step = self._step or next(_steps)
        return self._keys[name], self._step

    def end_step(self) -> None:
        """The next gradient belongs to another step, whether this one was complete or not."""
        self._step = 0

    def before_allgathers(self, name: str) -> None:
        """The gradient of `name` is sparse: its values and indices are gathered."""
        if self._is_planned(name):
            self._native.leave_out(self._keys[name], "its gradient is sparse")

    def _is_planned(self, name: str) -> bool:
        if name in self._keys and self._stop:
            plan_folder.stop()
        return name in self._keys


def _plan(native: Planner, title: str, gradients: Iterable[tuple[str, Record]]
          ) -> graph_analysis.Plan | None:
    """Independent allreduces in that order."""
    nodes: list[dict] = [{"name": "backward", "op": "Placeholder"}]
    for name, record in gradients:
        collective = dict(record)
        order = collective.pop("order", None)
        # In the name, of which the plan's hash is made: ranks with other orders have other plans.
        stored = f" (order {','.join(map(str, order))})" if order else ""
        nodes.append({"name": f"allreduce.{name}{stored}", "op": "HorovodAllreduce",
                      "inputs": ["backward"], "collective": collective})
    graph = graph_analysis.read_dict({
        "name": title, "nodes": nodes, "args": ["backward"],
        "fetches": [node["name"] for node in nodes[1:]],
    })
    (region,) = graph_analysis.analyze(graph, bucket_limits()).regions
    folder = os.environ.get(plan_folder.PLANS, "")
    if folder and native.is_first_rank():
        plan_folder.write_region(region, Path(folder))
    return region.plan


def key_of(plan: GradientPlan | None, name: str) -> tuple[int, int]:
    """Of the plan that of() has returned."""
    return NO_KEY if plan is None else plan.key_of(name)


def of(optimizer: Any) -> GradientPlan | None:
    """For a new hvd.DistributedOptimizer; None in another mode."""
    if planner is None or optimizer.process_set.process_set_id is None:
        return None
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    title = f"DistributedOptimizer ({type(optimizer).__name__})"
    return GradientPlan(planner, title, _gradients(planner, optimizer, parameters))


def _gradients(native: Planner, optimizer: Any, parameters: Iterable[Any]
               ) -> list[tuple[str, Record]]:
    """As they are sent, compressed or not, in the memory order of the parameter; the last one
    first."""
    from horovod_opt.pytorch.memory_order import order_of

    gpus: list[Any] = []
    scaling = (1.0, 1.0)
    if optimizer.op == AVERAGE:
        scaling = 1.0 / optimizer.gradient_predivide_factor, optimizer.gradient_predivide_factor
    gradients = []
    for parameter in parameters:
        if parameter.requires_grad:
            payload, _ = optimizer._compression.compress(parameter.detach().flatten()[:0])
            order = order_of(parameter)
            gradients.append((optimizer._parameter_names.get(parameter), {
                "shape": [parameter.size(dim) for dim in order or range(parameter.dim())],
                "dtype": str(payload.dtype).partition(".")[2],
                "order": order,
                "device": _device(native, parameter.device, gpus),
                "reduce_op": optimizer.op, "prescale": scaling[0], "postscale": scaling[1],
                "process_set": optimizer.process_set.process_set_id,
            }))
    return gradients[::-1]


def _device(native: Planner, device: Any, gpus: list[Any]) -> str:
    """As it is in the plan, of whose hash it is part: another rank's first GPU may have another
    number. `gpus`: those that have been seen."""
    if device.type != ON_GPU or not native.reduces_on_gpus():
        return ""
    if device not in gpus:
        gpus.append(device)
    return f"{GPU}{gpus.index(device)}"
