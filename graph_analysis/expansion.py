"""One region as one graph: what runs in it, with calls and decided branches written in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Optional

from graph_analysis import v1_control_flow
from graph_analysis.folding import Scalar, fold
from graph_analysis.graph import CONTROL_FLOW, IFS, WHILES, Collective, Graph, GraphError

# (name of a graph, node) -> the branches that are taken there.
Decisions = dict[tuple[str, int], set[str]]


class Frame:
    """One copy of a graph within the region. Its node i is node base + i of the region."""

    def __init__(self, graph: Graph, base: int, prefix: str, caller: Optional[Frame] = None,
                 site: int = 0, entry: Optional[int] = None):
        self.graph, self.base, self.prefix = graph, base, prefix
        self.caller, self.site = caller, site
        # A branch starts when all inputs of its If are there, and the If ends when all of the
        # branch is done: TensorFlow may run it as a single operation. A call is only a notation.
        self.entry = entry
        # Input 0 of control flow chooses the branch, which gets the others.
        first = 1 if caller and caller.graph.ops[site] in CONTROL_FLOW else 0
        self.arguments = {node: position for position, node in enumerate(graph.args, first)}
        self.callees: dict[int, Frame] = {}
        self.conditional = self.dead = False

    def source(self, node: int, position: int) -> int:
        """The node of the region that computes what `node` reads at `position`."""
        port = self.graph.ports.get((node, position), 0)
        return self.output(self.graph.inputs[node][position], port)

    def output(self, node: int, port: int) -> int:
        frame = self
        while node in frame.callees and frame.callees[node].entry is None:
            callee = frame.callees[node]
            if port >= len(callee.graph.outputs):
                raise GraphError(f"{frame.instance(node)} has no output {port}.")
            frame, (node, port) = callee, callee.graph.outputs[port]
        return frame.base + node

    def functions(self) -> set[str]:
        """The functions that this copy is written in."""
        return {self.graph.name} | (self.caller.functions() if self.caller else set())

    def instance(self, node: int) -> str:
        """The node's name in the region. TensorFlow names the nodes of a branch after their If
        already."""
        name = self.graph.names[node]
        if self.entry is not None and name.startswith(self.caller.graph.names[self.site] + "/"):
            return self.caller.prefix + name
        return self.prefix + name


class Site(NamedTuple):
    """A node whose bodies run as regions of their own."""

    node: int
    name: str
    loop: bool
    bodies: tuple[tuple[str, Graph], ...]  # role, body


class Expansion(NamedTuple):
    """preds        for each node of the region those it waits for
    notation     nodes that compute nothing: arguments, calls, entries. They add no depth
    reads        for each collective the nodes that compute its inputs
    collectives  node -> (op, name, attributes), those that may run
    conditional  collectives in branches or loops that are part of the graph itself
    sites        control flow with regions of its own
    frames       the copies of graphs that the region is made of
    """

    preds: list[tuple[int, ...]]
    roots: list[int]
    notation: set[int]
    reads: dict[int, tuple[int, ...]]
    collectives: dict[int, tuple[str, str, Collective]]
    conditional: set[int]
    sites: list[Site]
    frames: list[Frame]

    def name(self, node: int) -> str:
        frame = next(frame for frame in reversed(self.frames) if frame.base <= node)
        if node - frame.base == len(frame.graph):
            return frame.caller.instance(frame.site)
        return frame.instance(node - frame.base)


def expand(graph: Graph, values: Mapping[str, Scalar], inline_calls: bool,
           decisions: Decisions) -> Expansion:
    """Adds to `decisions` which branches are taken."""
    frames, sites = _frames(graph, values, inline_calls, decisions)
    preds: list[tuple[int, ...]] = []
    notation: set[int] = set()
    collectives, reads = {}, {}
    conditional: set[int] = set()
    gone: set[int] = set()
    for frame in frames:
        preds += _preds(frame, notation)
        body, base = frame.graph, frame.base
        dead, maybe = v1_control_flow.classify(
            body, lambda node, frame=frame: fold(frame, node, values))
        for node, child in frame.callees.items():
            child.dead = frame.dead or node in dead
            child.conditional = frame.conditional or node in maybe
        gone.update(range(base, base + len(body)) if frame.dead else [base + k for k in dead])
        for node, collective in body.collectives.items():
            if base + node in gone:
                continue
            collectives[base + node] = (body.ops[node], frame.instance(node), collective)
            reads[base + node] = tuple(
                [origin(frame, node, position) for position in range(len(body.inputs[node]))])
            if frame.conditional or node in maybe:
                conditional.add(base + node)
    sites = [site for site in sites if site.node not in gone]
    roots = [frames[0].output(*output) for output in graph.outputs] + graph.control_outputs
    return Expansion(preds, roots, notation, reads, collectives, conditional, sites, frames)


def _frames(graph: Graph, values: Mapping[str, Scalar], inline_calls: bool,
            decisions: Decisions) -> tuple[list[Frame], list[Site]]:
    frames = [Frame(graph, 0, "")]
    sites = []
    size = len(graph)
    for frame in frames:  # grows
        body = frame.graph
        for node, names in body.calls.items():
            strict = body.ops[node] in CONTROL_FLOW
            if strict:
                branch = _choose_branch(frame, node, values)
                if branch is None:
                    if body.library.communicating(names):
                        sites.append(_site(frame, node))
                    continue
                decisions.setdefault((body.name, node), set()).add(branch)
                if not body.library.communicating([branch]):
                    continue
            elif inline_calls:
                branch, = names
            else:
                continue
            callee = body.library[branch]
            if callee is None or branch in frame.functions():
                continue
            if len(callee.args) + strict != len(body.inputs[node]):
                raise GraphError(f"{frame.instance(node)} gives {branch} another number of "
                                 f"arguments than the {len(callee.args)} it takes.")
            prefix = frame.instance(node) + "/"
            child = Frame(callee, size, prefix, frame, node, size + len(callee) if strict else None)
            frame.callees[node] = child
            frames.append(child)
            size += len(callee) + strict
    return frames, sites


def _choose_branch(frame: Frame, node: int, values: Mapping[str, Scalar]) -> Optional[str]:
    """The branch that always runs, if that is known."""
    graph = frame.graph
    names, op = graph.calls[node], graph.ops[node]
    if op in WHILES:
        return None
    if not graph.inputs[node]:
        raise GraphError(f"{frame.instance(node)} has no predicate.")
    number = fold(frame, graph.inputs[node][0], values)
    if number is None:
        return None
    if op in IFS:
        return names[0 if number else 1]
    places = range(len(names))
    return names[places.index(number) if number in places else -1]


def _site(frame: Frame, node: int) -> Site:
    graph = frame.graph
    op, names = graph.ops[node], graph.calls[node]
    if op in IFS:
        roles = ["then", "else"]
    elif op in WHILES:
        roles = ["cond", "body"]
    else:
        roles = [f"branch{number}" for number in range(len(names))]
    bodies = tuple((role, graph.library[name]) for role, name in zip(roles, names)
                   if graph.library.communicating([name]))
    return Site(frame.base + node, frame.instance(node), op in WHILES, bodies)


def origin(frame: Frame, node: int, position: int) -> int:
    """Like Frame.source(), but seen through the arguments of the bodies around it."""
    while True:
        producer = frame.graph.inputs[node][position]
        if producer not in frame.arguments or frame.caller is None:
            return frame.source(node, position)
        frame, node, position = frame.caller, frame.site, frame.arguments[producer]


def _preds(frame: Frame, notation: set[int]) -> list[tuple[int, ...]]:
    graph, base = frame.graph, frame.base
    preds = [data + control for data, control in zip(graph.inputs, graph.controls)]
    v1_control_flow.unroll(graph, preds)
    if base:
        preds = [tuple([base + node for node in waits]) for waits in preds]
    # Readers of a call's outputs read what the callee returns.
    calls = {node for node, child in frame.callees.items() if child.entry is None}
    if calls:
        for node, inputs in enumerate(graph.inputs):
            if not calls.isdisjoint(inputs):
                preds[node] = (*[frame.source(node, k) for k in range(len(inputs))],
                               *[base + control for control in graph.controls[node]])
    if frame.caller:
        _connect_to_caller(frame, preds, notation)
    for node, child in frame.callees.items():
        notation.add(base + node)
        # What starts the body is behind all of its nodes; only an empty one has to name it.
        preds[node] = (
            *[child.output(*output) for output in child.graph.outputs],
            *[child.base + control for control in child.graph.control_outputs],
        ) or _start(child)
    return preds


def _start(frame: Frame) -> tuple[int, ...]:
    """What nodes of the body wait for that wait for nothing in it."""
    if frame.entry is not None:
        return (frame.entry,)
    return tuple(frame.caller.base + node for node in frame.caller.graph.controls[frame.site])


def _connect_to_caller(frame: Frame, preds: list[tuple[int, ...]], notation: set[int]) -> None:
    caller, site, entry = frame.caller, frame.site, frame.entry
    gates = tuple(caller.base + node for node in caller.graph.controls[site])
    start = _start(frame)
    for node, waits in enumerate(preds):
        if not waits:
            preds[node] = start
    for node, position in frame.arguments.items():
        notation.add(frame.base + node)
        if entry is None:
            preds[node] = (caller.source(site, position), *gates)
    if entry is not None:
        notation.add(entry)
        preds.append((*[caller.source(site, k) for k in range(len(caller.graph.inputs[site]))],
                      *gates))
