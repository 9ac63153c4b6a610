"""The dataflow graph that the analysis works on, whatever framework or file it came from."""

from __future__ import annotations

import functools
import gc
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Optional, TypeVar

IFS = frozenset({"If", "StatelessIf"})
CASES = frozenset({"Case", "StatelessCase"})
WHILES = frozenset({"While", "StatelessWhile"})
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
SWITCHES = frozenset({"Switch", "RefSwitch"})
EXITS = frozenset({"Exit", "RefExit"})
CONTROL_FLOW = IFS | CASES | WHILES

# Their results are known before the graph runs; they move no data.
QUERIES = frozenset({
    "HorovodSize", "HorovodLocalSize", "HorovodRank", "HorovodLocalRank",
    "HorovodProcessSetIncluded"})


def is_collective(op: str) -> bool:
    return op.startswith("Horovod") and op not in QUERIES


Function = TypeVar("Function", bound=Callable)


def pause_collector(function: Function) -> Function:
    """`function`, with Python's garbage collector off while it runs: to read and analyse a graph
    makes many objects and no cycles of them, and the collector's looks at them took a third of the
    time."""
    @functools.wraps(function)
    def call(*arguments, **keywords):
        if not gc.isenabled():
            return function(*arguments, **keywords)
        gc.disable()
        try:
            return function(*arguments, **keywords)
        finally:
            gc.enable()
    return call


class GraphError(ValueError):
    """A graph that cannot be read or analysed; the text says what is wrong and where."""


class Collective(NamedTuple):
    """What an operation of Horovod does, as far as it matters for order and fusion.

    `shape` is None where it is not static, or not known; `shape_unknown` then says why.
    `reduce_op`, `prescale` and `postscale` are None for operations that do not reduce."""

    shape: Optional[tuple[int, ...]]
    dtype: str
    reduce_op: Optional[int] = None
    prescale: Optional[float] = None
    postscale: Optional[float] = None
    process_set: int = 0
    device: str = ""
    key: int = 0
    shape_unknown: str = ""


class Graph:
    """Nodes, numbered in the order in which they were added, and their edges.

    names, ops        a string for each node
    inputs            for each node the nodes whose outputs it reads, by position
    controls          for each node the nodes that it merely waits for
    ports             (node, position) -> which output of that input is read, if it is not the
                      first and the input is a call, control flow or a Switch
    collectives       node -> Collective
    calls             node -> names of the functions it calls: then and else of an If, condition
                      and body of a While, the branches of a Case, the one callee of a call
    args              the nodes that stand for the arguments, if this is a function's body
    outputs           (node, port): what is fetched, or what the function returns
    control_outputs   nodes that run although nobody reads them
    attribute         (node, name) -> the scalar of that attribute, or None: "value" of a Const,
                      "process_set_id" of a query
    library           function name -> Graph, shared by all graphs that were read together
    """

    __slots__ = ("name", "names", "ops", "inputs", "controls", "ports", "collectives", "calls",
                 "args", "outputs", "control_outputs", "attribute", "library")

    def __init__(self, name: str, library: Library,
                 attribute: Callable[[int, str], object] = lambda node, name: None):
        self.name = name
        self.names: list[str] = []
        self.ops: list[str] = []
        self.inputs: list[tuple[int, ...]] = []
        self.controls: list[tuple[int, ...]] = []
        self.ports: dict[tuple[int, int], int] = {}
        self.collectives: dict[int, Collective] = {}
        self.calls: dict[int, tuple[str, ...]] = {}
        self.args: list[int] = []
        self.outputs: list[tuple[int, int]] = []
        self.control_outputs: list[int] = []
        self.attribute = attribute
        self.library = library

    def __len__(self) -> int:
        return len(self.names)

    def roots(self) -> list[int]:
        """The nodes from which everything that runs is reached backwards."""
        return [node for node, _ in self.outputs] + self.control_outputs


class Library:
    """The functions that a graph calls. Each is read at its first use."""

    def __init__(self, load: Callable[[str], Optional[Graph]] = lambda name: None):
        self._load = load
        self._graphs: dict[str, Optional[Graph]] = {}
        self._communicating: dict[str, frozenset[str]] = {}

    def __getitem__(self, name: str) -> Optional[Graph]:
        """The body of the function, or None if it is not known."""
        if name not in self._graphs:
            self._graphs[name] = None  # as long as it is read: it may be of its own type
            self._graphs[name] = self._load(name)
        return self._graphs[name]

    def communicating(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the functions, and of all that they call, that contain collectives."""
        return frozenset().union(*(self._closure(name) for name in names))

    def _closure(self, name: str) -> frozenset[str]:
        closure = self._communicating.get(name)
        if closure is not None:
            return closure
        self._communicating[name] = frozenset()  # a function that calls itself ends here
        body = self[name]
        if body is None:
            return frozenset()
        callees: Sequence[str] = [callee for names in body.calls.values() for callee in names]
        closure = self.communicating(callees)
        if body.collectives or closure:
            closure |= {name}
        self._communicating[name] = closure
        return closure


# How many inputs and functions these have.
INPUTS = {**dict.fromkeys(SWITCHES, 2), **dict.fromkeys(EXITS, 1)}
CALLEES = dict.fromkeys(IFS | WHILES, 2)


def check(graph: Graph) -> None:
    """Raises GraphError if a branch, loop or call has too few parts, too many, or others, and if
    a collective is a call or an argument as well, or has what no tensor can have."""
    def problem(node: int, text: str) -> GraphError:
        return GraphError(f"{graph.name}: {graph.names[node]} ({graph.ops[node]}) {text}.")

    for node, op in enumerate(graph.ops):
        inputs = graph.inputs[node]
        if len(inputs) != INPUTS.get(op, len(inputs)):
            raise problem(node, f"has {len(inputs)} inputs instead of {INPUTS[op]}")
        if op in EXITS and graph.ops[inputs[0]] not in SWITCHES:
            raise problem(node, "does not leave a loop: its input is no Switch")
    for node, names in graph.calls.items():
        op = graph.ops[node]
        if not names or op not in CASES and len(names) != CALLEES.get(op, 1):
            raise problem(node, f"calls {len(names)} functions instead of {CALLEES.get(op, 1)}")
    args = set(graph.args)
    for node, about in graph.collectives.items():
        if node in graph.calls:
            raise problem(node, "is a collective and calls a function")
        if node in args:
            raise problem(node, "is a collective and an argument")
        if not 0 <= about.key < 2**63:
            raise problem(node, f"has a key out of bounds, {about.key}")
        if math.prod(about.shape or ()) >= 2**60:
            raise problem(node, f"moves a tensor that is too large, {list(about.shape)}")
        for factor in (about.prescale, about.postscale):
            if factor is not None and not math.isfinite(factor):
                raise problem(node, f"scales by {factor}")


def special_types(graph: Graph) -> frozenset[str]:
    """The types of its nodes that are collectives, control flow, calls, or names of functions."""
    return frozenset(op for op in set(graph.ops) if is_collective(op) or op in CONTROL_FLOW
                     or op in CALLS or op not in QUERIES and graph.library[op] is not None)


def reverse_depth_first(preds: Sequence[tuple[int, ...]], roots: Iterable[int],
                        name: Callable[[int], str]) -> list[int]:
    """Reverse depth-first search (chapter 6.3.4): all nodes from which a root is reached, each
    after those it waits for. O(V + E).

    Raises GraphError, with what `name` calls them, if nodes wait for each other."""
    new, open_, closed = 0, 1, 2
    state = bytearray(len(preds))
    order: list[int] = []
    stack = list(roots)
    stack.reverse()
    pop, push, finish = stack.pop, stack.append, order.append
    while stack:
        node = stack[-1]
        if state[node] == new:
            state[node] = open_
            for pred in preds[node]:
                if state[pred] == new:
                    push(pred)
                elif state[pred] == open_:
                    raise GraphError(f"{name(node)} and {name(pred)} wait for each other: "
                                     "the graph has a cycle.")
        else:
            pop()
            if state[node] == open_:
                state[node] = closed
                finish(node)
    return order
