"""From a graph to its plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Optional, Union

from graph_analysis.bucket_sizes import DEFAULT_LIMITS, Limits, fuse
from graph_analysis.concurrency import concurrent_calls, find_unordered_pair
from graph_analysis.constants import constant_collectives
from graph_analysis.expansion import Decisions, expand
from graph_analysis.folding import Scalar
from graph_analysis.graph import Collective, Graph, GraphError, pause_collector
from graph_analysis.order import Order
from graph_analysis.plan import Negotiated, Plan, Slot, nbytes
from graph_analysis.reductions import ADASUM, DTYPES, REDUCE_OPS

# Not in the plan of a graph, but each is one of its own.
RECURRING = frozenset({"HorovodGroupedAllreduce", "HorovodAllgather", "HorovodGroupedAllgather",
                       "HorovodBroadcast", "HorovodBroadcastInplace", "HorovodReducescatter",
                       "HorovodGroupedReducescatter"})
BY_ITSELF = "has a plan of its own once it recurs"
DEFAULT_THRESHOLD = DEFAULT_LIMITS.main_memory  # bytes


class Region(NamedTuple):
    """What runs as often as one graph does: the graph itself, a branch, the body of a loop. If it
    has collectives of several process sets, there is one for each.

    `plan` is None if everything in it stays negotiated; `reason` then says why. `unplanned` has
    the collectives that do."""

    name: str
    plan: Optional[Plan]
    unplanned: tuple[Negotiated, ...]
    reason: str


class Analysis(NamedTuple):
    """regions           the main one first, then those nested in it in the order they can run in
    concurrent_calls  (function, reason): functions with collectives that are called from places
                      of which neither waits for the other
    nodes, edges      how many of the main region run
    """

    regions: tuple[Region, ...]
    concurrent_calls: tuple[tuple[str, str], ...]
    nodes: int
    edges: int


class Options(NamedTuple):
    main: Graph
    limits: Limits
    values: Mapping[str, Scalar]
    inline_calls: bool
    decisions: Decisions


@pause_collector
def analyze(graph: Graph, threshold: Union[int, Limits] = DEFAULT_LIMITS,
            values: Optional[Mapping[str, Scalar]] = None,
            inline_calls: bool = True) -> Analysis:
    """Orders and fuses the collectives of `graph` (chapter 6.3.4). O(V + E).

    `threshold` is the size of a bucket in bytes, or its limits by device. `values` are those of
    Horovod's queries, such as {"HorovodSize": 2}, for predicates of branches. With `inline_calls` a
    called function is analysed as if written in place; without, it is a node that only carries
    dependencies.

    Raises GraphError if nodes wait for each other in a circle, or a function is part of itself."""
    limits = threshold if isinstance(threshold, Limits) else Limits.same(threshold)
    if min(limits) < 0:
        raise ValueError(f"threshold: {min(limits)} bytes is negative")
    regions: list[Region] = []
    options = Options(graph, limits, values or {}, inline_calls, {})
    counts = _analyze(regions, graph.name, (graph,), "", False, options)
    return Analysis(tuple(regions), concurrent_calls(graph, options.decisions), *counts)


def _analyze(regions: list[Region], name: str, nested: tuple[Graph, ...], negotiated: str,
             in_loop: bool, options: Options) -> tuple[int, int]:
    """Appends the region of the last of the graphs, each of which is in the one before it, and
    those nested in it. `negotiated`: why nothing in it can be planned, if so. `in_loop`: whether
    one of the graphs is part of a loop. Returns how many nodes and edges run."""
    graph = nested[-1]
    expansion = expand(graph, options.values, options.inline_calls, options.decisions)
    order = Order(expansion)
    constant = constant_collectives(expansion, order.collectives) if in_loop else frozenset()
    # By collective: the process set in whose plan it is, None if it is negotiated.
    process_sets: list[Optional[int]] = []
    unplanned = []
    for number, node in enumerate(order.collectives):
        op, instance, collective = expansion.collectives[node]
        reason = negotiated or _why_not(
            op, collective, node in expansion.conditional, node in constant)
        process_sets.append(None if reason else collective.process_set)
        if reason:
            unplanned.append(Negotiated(number, instance, reason))
    sets = sorted({number for number in process_sets if number is not None})
    for process_set in sets:
        members = [number == process_set for number in process_sets]
        after = order.nearest(members)
        slots = [_slot(number, *expansion.collectives[node][1:], after[number])
                 for number, node in enumerate(order.collectives) if members[number]]
        buckets = fuse(slots, order.latest(members), options.limits)
        title = f"{name}, process set {process_set}" if process_set else name
        negotiated_here = tuple(unplanned) if process_set == sets[0] else ()
        regions.append(Region(
            title, Plan(title, buckets, negotiated_here, process_set), negotiated_here, ""))
    if not sets and (unplanned or not regions):
        reason = negotiated or (
            "none of its collectives can be planned" if unplanned else "it has no collectives")
        regions.append(Region(name, None, tuple(unplanned), reason))

    inside = f"{name}/" if graph is not options.main else ""
    sites = {site.node: site for site in expansion.sites}
    running = [sites[node] for node in order.topological if node in sites]
    pair = find_unordered_pair(order.topological, expansion.preds, list(sites))
    if pair:
        first, second = (sites[node].name for node in pair)
        negotiated = f"neither of {first} and {second} waits for the other"
    for site in running:
        for role, body in site.bodies:
            if any(body is outer for outer in nested):
                raise GraphError(f"{body.name}: {site.name} makes it a part of itself.")
            _analyze(regions, f"{inside}{site.name}/{role}", (*nested, body), negotiated,
                     in_loop or site.loop, options)
    return len(order.topological), order.edges


def _slot(number: int, name: str, about: Collective, after: tuple[int, ...]) -> Slot:
    return Slot(number, name, about.shape, about.dtype, about.reduce_op, about.prescale,
                about.postscale, about.device, about.key, nbytes(about.shape, about.dtype), after)


def _why_not(op: str, about: Collective, conditional: bool, constant: bool) -> Optional[str]:
    """Why the collective has to be negotiated, or None."""
    if op != "HorovodAllreduce":
        return f"{op} {BY_ITSELF if op in RECURRING else 'is never planned'}"
    if about.reduce_op == ADASUM:
        return "Adasum is not a sum of the tensors in a bucket"
    if about.reduce_op not in REDUCE_OPS:
        return f"reduce operation {about.reduce_op} is not known"
    if about.shape is None:
        return about.shape_unknown or "its shape is not static"
    if about.dtype not in DTYPES:
        return f"dtype {about.dtype} is not known"
    if constant:
        return "it may be a constant in a loop, which TensorFlow reduces once and for all"
    if conditional:
        return "it is in a branch or loop of TensorFlow 1 and may run any number of times"
    return None
