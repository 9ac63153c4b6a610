"""Plans from TensorFlow's graphs, before they first run and without a change to the user's script.

Every graph that TensorFlow turns into a function passes through one call, and so does every
Session.run(). There each allreduce gets a key, an attribute of its own: the key finds the tensor's
place in its plan when the operation runs, and two allreduces that differ in it are not merged by
TensorFlow's optimizer.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import graph_analysis
from graph_analysis.analysis import BY_ITSELF
from horovod_opt.native.plan_text import native_text
from horovod_opt.planning import gradient_shapes
from horovod_opt.planning.plan_folder import write_region
from horovod_opt.planning.planner import Planner, bucket_limits

KEY = "opt_key"
PLANNED_OP = "HorovodAllreduce"


class Capture:
    """Reads graphs and hands their plans over to `planner`. One per process.

    What is found is also written to `folder`, if there is one. `before_step`, if given, is called
    whenever a function or a run with planned collectives is about to begin.
    """

    def __init__(self, planner: Planner, folder: str = "",
                 before_step: Callable[[], None] | None = None):
        self._planner = planner
        self._keys = itertools.count(1)
        self._lock = threading.RLock()
        self._functions: dict[str, list[str]] = {}  # function name -> hashes of its plans
        self._runs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # graph -> fetches
        self._versions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # graph -> version
        self._messages: set[str] = set()
        self._has_keys = False
        self._folder = folder
        self.before_step = before_step
        self._steps: set[str] = set()  # functions and runs in which something planned is reduced

    def give_keys(self, graph: Any) -> None:
        """Names the allreduces of a tf.Graph that have no name yet."""
        with self._lock:
            if self._versions.get(graph) == graph.version:
                return
            for operation in graph.get_operations():
                if operation.type == PLANNED_OP and operation.get_attr(KEY) == 0:
                    self._give_key(operation)
            self._versions[graph] = graph.version

    def _give_key(self, operation: Any) -> None:
        from tensorflow.core.framework import attr_value_pb2

        operation._set_attr(KEY, attr_value_pb2.AttrValue(i=next(self._keys)))
        self._has_keys = True

    def function(self, name: str, graph: Any, function: Any) -> None:
        """A FuncGraph that has become the function `name`, which can run as long as it lives."""
        with self._lock:
            if self._has_keys:
                self._plan(name, function, lambda: graph_analysis.read_func_graph(graph))

    def run(self, graph: Any, fetches: list) -> None:
        """A tf.Graph that is about to be run for `fetches`, tensors or operations."""
        with self._lock:
            runs = self._runs.setdefault(graph, set())
            run = tuple(sorted(fetch.name for fetch in fetches))
            if run in runs or not self._has_keys:
                return
            runs.add(run)
            name = f"run of {', '.join(run)}"
            short = name if len(name) <= 80 else name[:77] + "..."
            self._plan(short, graph, lambda: graph_analysis.read_graph(graph, fetches))
        self.begins(short)

    def begins(self, name: str) -> None:
        """The function or run of that name is about to begin."""
        if self.before_step and name in self._steps:
            self.before_step()

    def _plan(self, name: str, owner: Any, read: Callable[[], graph_analysis.Graph]) -> None:
        try:
            graph = read()
            analysis = graph_analysis.analyze(graph, bucket_limits(), VALUES, inline_calls=False)
        except Exception as error:  # what cannot be planned can still be trained
            self._say(f"{name} stays negotiated: its graph cannot be read: {error!r}")
            return
        for region in analysis.regions:
            self._write(region)
            reasons = {tensor.reason for tensor in region.unplanned
                       if not tensor.reason.endswith(BY_ITSELF)}
            if reasons:
                self._say(f"in {region.name}, some tensors stay negotiated: "
                          f"{'; '.join(sorted(reasons))}")
            if region.plan is None:
                continue
            self._functions.setdefault(name, []).append(region.plan.hash)
            text = native_text(region.plan, bucket_limits())
            self._planner.add(text)
            weakref.finalize(owner, self._planner.remove, text).atexit = False
        callees = graph.library.communicating(itertools.chain(*graph.calls.values()))
        if name in self._functions or not callees.isdisjoint(self._functions):
            self._steps.add(name)
        for function, reason in analysis.concurrent_calls:
            for plan in self._functions.get(function, ()):
                self._planner.reject(plan, f"{function}: {reason}")
        weakref.finalize(owner, self._forget, name).atexit = False

    def _forget(self, function: str) -> None:
        """Its graph is gone. Takes no lock: Python may collect garbage anywhere."""
        self._functions.pop(function, None)
        self._steps.discard(function)

    def _write(self, region: graph_analysis.Region) -> None:
        if self._folder and self._planner.is_first_rank() and (region.plan or region.unplanned):
            write_region(region, Path(self._folder))

    def _say(self, text: str) -> None:
        if text not in self._messages and self._planner.is_first_rank():
            print(f"horovod-opt: {text}", file=sys.stderr, flush=True)
        self._messages.add(text)


# Predicates of upstream's own branches around each allreduce: in a graph that is worth planning
# there are several ranks, and this one is among them.
VALUES = {"HorovodSize": 2, "HorovodProcessSetIncluded": 1}


def install(capture: Capture) -> None:
    """Lets TensorFlow show its graphs to `capture`, from now on."""
    gradient_shapes.is_planning = True
    from tensorflow.python.client import session
    from tensorflow.python.eager import context
    from tensorflow.python.eager.polymorphic_function import atomic_function
    from tensorflow.python.ops import control_flow_v2_func_graphs

    bodies = control_flow_v2_func_graphs.ControlFlowFuncGraph
    make_function = atomic_function.from_func_graph
    call_flat = atomic_function.AtomicFunction.call_flat
    extend, run = session.BaseSession._extend_graph, session.BaseSession._do_run

    def from_func_graph(name, graph, *args, **kwargs):
        capture.give_keys(graph)
        function = make_function(name, graph, *args, **kwargs)
        # A branch or the body of a loop is planned with the function around it.
        if not isinstance(graph, bodies):
            capture.function(name if isinstance(name, str) else name.decode(), graph, function)
        return function

    def call_before_step(self, *args):
        if context.executing_eagerly():
            capture.begins(self.name.decode())
        return call_flat(self, *args)

    def _extend_graph(self):
        capture.give_keys(self.graph)
        return extend(self)

    def _do_run(self, handle, target_list, fetch_list, *args, **kwargs):
        if handle is None:
            capture.give_keys(self.graph)
            capture.run(self.graph, [*fetch_list, *target_list])
        return run(self, handle, target_list, fetch_list, *args, **kwargs)

    atomic_function.from_func_graph = from_func_graph
    session.BaseSession._extend_graph = _extend_graph
    session.BaseSession._do_run = _do_run
    if capture.before_step:
        atomic_function.AtomicFunction.call_flat = call_before_step
