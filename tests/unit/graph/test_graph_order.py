"""IDs and buckets (chapter 6.3.4): the dissertation's example, and what holds for any graph."""

from __future__ import annotations

import gc
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_analysis import Collective, Graph, GraphError, Library, Plan, analyze, read_dict
from graph_analysis.bucket_sizes import Limits


def allreduce(name: str, *inputs: str, shape: tuple = (4,), **attributes: object) -> dict:
    return {"name": name, "op": "HorovodAllreduce", "inputs": list(inputs),
            "collective": {"shape": list(shape), **attributes}}


def op(name: str, *inputs: str, **fields: object) -> dict:
    return {"name": name, "op": "Op", "inputs": list(inputs), **fields}


def plan_of(nodes: list[dict], fetches: list[str], **options: object):
    region, = analyze(read_dict({"nodes": nodes, "fetches": fetches}), **options).regions
    return region.plan


def ids(plan) -> dict[str, int]:
    return {slot.name: slot.id for slot in plan.slots}


def buckets(plan) -> list[list[str]]:
    return [[slot.name for slot in bucket.slots] for bucket in plan.buckets]


# Figures 6.13 and 6.14: 0 before 2 before 3; 0, 1 and 4 are concurrent; 4 is deeper than 1.
FIGURE = [
    op("a"), op("b", "a"), op("c"), op("d", "c"), op("e", "d"), op("f", "e"),
    allreduce("Allreduce0", "b"), allreduce("Allreduce1", "b"),
    op("g", "Allreduce0"), allreduce("Allreduce2", "g"),
    op("h", "Allreduce2"), op("i", "f"), op("j", "i"), op("k", "j"),
    allreduce("Allreduce3", "h"), allreduce("Allreduce4", "k"),
    op("not fetched", "a"), allreduce("Allreduce5", "not fetched"),
]
FETCHES = ["Allreduce1", "Allreduce3", "Allreduce4"]


@pytest.mark.parametrize("fetches", list(itertools.permutations(FETCHES)))
def test_the_example_of_the_dissertation(fetches):
    plan = plan_of(FIGURE, list(fetches))
    assert ids(plan) == {f"Allreduce{number}": number for number in range(5)}
    assert buckets(plan) == [["Allreduce0", "Allreduce1"], ["Allreduce2"],
                             ["Allreduce3", "Allreduce4"]]
    assert [slot.after for slot in plan.slots] == [(), (), (0,), (2,), ()]
    assert [bucket.closed for bucket in plan.buckets] == [
        "Allreduce2 depends on Allreduce0", "Allreduce3 depends on Allreduce2",
        "there is no other tensor"]


def test_siblings_keep_the_order_in_which_they_were_added():
    nodes = [op("x"), allreduce("z", "x"), allreduce("a", "x"), allreduce("m", "x")]
    assert ids(plan_of(nodes, ["a", "m", "z"])) == {"z": 0, "a": 1, "m": 2}


def test_strangers_of_equal_depth_are_sorted_by_name_and_stand_with_their_siblings():
    nodes = [op("x"), op("y"), allreduce("d", "x"), allreduce("c", "y"), allreduce("a", "y")]
    assert list(ids(plan_of(nodes, ["a", "c", "d"]))) == ["c", "a", "d"]


def test_siblings_stand_where_the_first_name_among_them_does():
    nodes = [op("x"), op("y"), allreduce("b", "x"), allreduce("a", "y"), allreduce("c", "y")]
    assert list(ids(plan_of(nodes, ["a", "b", "c"]))) == ["a", "c", "b"]


def test_depth_decides_between_strangers_before_names_do():
    nodes = [op("x"), op("y"), op("y2", "y"), allreduce("z", "x"), allreduce("a", "y2")]
    assert ids(plan_of(nodes, ["a", "z"])) == {"z": 0, "a": 1}


def test_depth_is_that_of_the_longest_path():
    nodes = [op("x"), op("y", "x"), op("w", "x", "y"), allreduce("a", "w"), op("v", "x"),
             allreduce("z", "v")]
    assert ids(plan_of(nodes, ["a", "z"])) == {"z": 0, "a": 1}


def test_a_control_edge_is_a_dependency():
    waits = {**allreduce("b", "x"), "controls": ["a"]}
    assert buckets(plan_of([op("x"), allreduce("a", "x"), waits], ["a", "b"])) == [["a"], ["b"]]


def test_a_path_through_a_collective_that_is_not_planned_closes_a_bucket():
    nodes = [op("x"), allreduce("a", "x"), {"name": "g", "op": "HorovodAllgather",
                                            "inputs": ["a"]}, allreduce("b", "g")]
    plan = plan_of(nodes, ["b"])
    assert buckets(plan) == [["a"], ["b"]]
    assert ids(plan) == {"a": 0, "b": 2}
    assert plan.slots[1].after == (0,)
    assert plan.unplanned == (
        (1, "g", "HorovodAllgather has a plan of its own once it recurs"),)


def test_a_concurrent_collective_that_is_not_planned_does_not_close_a_bucket():
    nodes = [op("x"), allreduce("a", "x"), {"name": "g", "op": "HorovodAllgather",
                                            "inputs": ["x"]}, allreduce("b", "x")]
    assert buckets(plan_of(nodes, ["a", "b", "g"])) == [["a", "b"]]


@pytest.mark.parametrize("field, value, words", [
    ("dtype", "float16", "dtype: float16, not float32"),
    ("reduce_op", 3, "reduce operation: min, not sum"),
    ("device", "/device:GPU:0", "device: /device:GPU:0, not none"),
    ("prescale", 0.5, "prescale factor: 0.5, not 1.0"),
    ("postscale", 0.5, "postscale factor: 0.5, not 1.0"),
])
def test_a_mismatch_closes_a_bucket(field, value, words):
    nodes = [op("x"), allreduce("a", "x"), allreduce("b", "x", **{field: value}),
             allreduce("c", "x", **{field: value})]
    plan = plan_of(nodes, ["a", "b", "c"])
    assert buckets(plan) == [["a"], ["b", "c"]]
    assert words in plan.buckets[0].closed


def test_a_bucket_is_filled_to_the_threshold_and_not_beyond():
    nodes = [op("x"), *[allreduce(name, "x") for name in "abc"]]
    assert buckets(plan_of(nodes, list("abc"), threshold=32)) == [["a", "b"], ["c"]]
    assert buckets(plan_of(nodes, list("abc"), threshold=31)) == [["a"], ["b"], ["c"]]


def test_a_tensor_larger_than_the_threshold_is_alone():
    nodes = [op("x"), allreduce("a", "x", shape=(0,)), allreduce("b", "x", shape=(9,)),
             allreduce("c", "x", shape=(0,))]
    plan = plan_of(nodes, list("abc"), threshold=32)
    assert buckets(plan) == [["a"], ["b"], ["c"]]
    assert "b (36 B) would make it 36 B, over the threshold of 32 B" in plan.buckets[0].closed


def test_the_first_bucket_on_a_gpu_is_small_and_the_others_are_large():
    nodes = [op("x"), *[allreduce(name, "x", device="" if name < "d" else "GPU 0")
                        for name in "abcdefgh"]]
    plan = plan_of(nodes, list("abcdefgh"), threshold=Limits(32, 48, 16))
    assert buckets(plan) == [["a", "b"], ["c"], ["d"], ["e", "f", "g"], ["h"]]
    assert buckets(plan_of(nodes, list("abcdefgh"), threshold=32)) == [
        ["a", "b"], ["c"], ["d", "e"], ["f", "g"], ["h"]]
    # TensorFlow says where it would like to have a tensor.
    nodes = [op("x"), *[allreduce(name, "x", device="/device:GPU:0") for name in "abc"]]
    plan = plan_of(nodes, list("abc"), threshold=Limits(32, 48, 16))
    assert buckets(plan) == [["a", "b"], ["c"]]


def test_a_negative_threshold_is_refused():
    with pytest.raises(ValueError, match="threshold: -1 bytes"):
        plan_of([op("x")], ["x"], threshold=-1)


@pytest.mark.parametrize("node, reason", [
    (allreduce("a", shape=(-1, 2)), "its shape is not static"),
    ({"name": "a", "op": "HorovodAllreduce"}, "its shape is not static"),
    (allreduce("a", reduce_op=2), "Adasum is not a sum of the tensors in a bucket"),
    (allreduce("a", reduce_op=9), "reduce operation 9 is not known"),
    (allreduce("a", dtype="string"), "dtype string is not known"),
    *[({"name": "a", "op": name}, f"{name} has a plan of its own once it recurs")
      for name in ("HorovodAllgather", "HorovodBroadcast", "HorovodGroupedAllreduce",
                   "HorovodReducescatter")],
    *[({"name": "a", "op": name}, f"{name} is never planned")
      for name in ("HorovodAlltoall", "HorovodJoin")],
])
def test_what_cannot_be_planned_stays_negotiated(node, reason):
    region, = analyze(read_dict({"nodes": [node], "fetches": ["a"]})).regions
    assert (region.plan, region.unplanned) == (None, ((0, "a", reason),))
    assert region.reason == "none of its collectives can be planned"


def test_a_process_set_has_a_plan_of_its_own():
    """b of set 1 lies between a and c of all ranks, which cannot be fused for that."""
    nodes = [allreduce("a"), allreduce("b", "a", process_set=1), allreduce("c", "b"),
             allreduce("d", process_set=1),
             {"name": "e", "op": "HorovodAlltoall", "inputs": ["c", "d"]}]
    everyone, some = analyze(read_dict({"nodes": nodes, "fetches": ["e"]})).regions
    assert everyone.name + ", process set 1" == some.name
    assert [everyone.plan.process_set, some.plan.process_set] == [0, 1]
    assert [[slot.name for slot in bucket.slots] for bucket in everyone.plan.buckets] == [
        ["a"], ["c"]]
    assert {slot.name for slot in some.plan.slots} == {"b", "d"}
    assert [entry.name for entry in everyone.unplanned] == ["e"]
    assert some.unplanned == ()


def test_queries_are_no_collectives():
    nodes = [{"name": name, "op": name} for name in ("HorovodSize", "HorovodRank")]
    region, = analyze(read_dict({"nodes": nodes, "fetches": ["HorovodSize"]})).regions
    assert (region.plan, region.unplanned, region.reason) == (None, (), "it has no collectives")


def chain(length: int, distance: int) -> Graph:
    graph = Graph("chain", Library())
    for node in range(length):
        graph.names.append(f"n{node}")
        graph.inputs.append((node - 1,) if node else ())
        graph.controls.append(())
        if node % distance == 0:
            graph.collectives[node] = Collective((1,), "float32", 1, 1.0, 1.0)
        graph.ops.append("HorovodAllreduce" if node % distance == 0 else "Op")
    graph.outputs.append((length - 1, 0))
    return graph


@pytest.mark.parametrize("distance", [5, 1000])
def test_a_graph_may_be_deeper_than_any_stack(distance):
    analysis = analyze(chain(100_000, distance))
    plan = analysis.regions[0].plan
    assert analysis.nodes == 100_000
    assert len(plan.buckets) == len(plan.slots) == 100_000 // distance
    assert [slot.after for slot in plan.slots] == [()] + [
        (number,) for number in range(100_000 // distance - 1)]


def test_a_cycle_is_an_error():
    nodes = [op("x", "y"), op("y", "x")]
    with pytest.raises(GraphError, match="[xy] and [xy] wait for each other"):
        plan_of(nodes, ["x"])


@pytest.mark.parametrize("enabled", [True, False])
def test_pythons_collector_is_left_as_it_was(enabled):
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        plan_of(FIGURE, FETCHES)
        assert gc.isenabled() == enabled
        with pytest.raises(GraphError):
            plan_of([op("x", "x")], ["x"])
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()


# Random graphs: for each node whether it is a collective, its parents among the earlier ones, its
# size and dtype.
@st.composite
def graphs(draw) -> list[dict]:
    count = draw(st.integers(1, 14))
    names = draw(st.permutations([f"n{number:02}" for number in range(count)]))
    nodes = []
    for number in range(count):
        earlier = st.sampled_from(names[:number]) if number else st.nothing()
        inputs = draw(st.lists(earlier, max_size=3)) if number else []
        controls = draw(st.lists(earlier, max_size=1)) if number else []
        if draw(st.booleans()):
            node = allreduce(names[number], *inputs, shape=(draw(st.integers(0, 20)),),
                             dtype=draw(st.sampled_from(["float32", "float16"])))
        else:
            node = op(names[number], *inputs)
        nodes.append({**node, "controls": controls})
    return nodes


def ancestors(nodes: list[dict]) -> dict[str, set[str]]:
    result = {}
    for node in nodes:
        parents = set(node["inputs"]) | set(node["controls"])
        result[node["name"]] = parents.union(*(result[parent] for parent in parents))
    return result


def names_of_collectives(nodes: list[dict]) -> set[str]:
    return {node["name"] for node in nodes if "collective" in node}


@settings(deadline=None, max_examples=120)
@given(graphs(), st.integers(0, 100))
def test_order_and_buckets_of_any_graph(nodes, threshold):
    above = ancestors(nodes)
    collectives = names_of_collectives(nodes)
    plan = plan_of(nodes, [node["name"] for node in nodes], threshold=threshold)
    if not collectives:
        assert plan is None
        return
    assert Plan.from_json(plan.to_json()) == plan
    number = ids(plan)
    assert sorted(number.values()) == list(range(len(collectives)))
    for name in collectives:
        assert all(number[before] < number[name] for before in above[name] & collectives)
    for bucket in plan.buckets:
        members = [slot.name for slot in bucket.slots]
        assert not any(above[name] & set(members) for name in members)
        assert len({slot.dtype for slot in bucket.slots}) == 1
        assert len(members) == 1 or bucket.nbytes <= threshold
    for bucket, following in zip(plan.buckets, plan.buckets[1:]):
        # As large as it can be: what comes next does not fit.
        first, after = bucket.slots[0], following.slots[0]
        assert (above[after.name] & {slot.name for slot in bucket.slots}
                or first.dtype != after.dtype or bucket.nbytes + after.nbytes > threshold)


@settings(deadline=None, max_examples=120)
@given(graphs())
def test_the_nearest_collectives_of_any_graph(nodes):
    plan = plan_of(nodes, [node["name"] for node in nodes])
    if plan is None:
        return
    number, parents = ids(plan), {
        node["name"]: set(node["inputs"]) | set(node["controls"]) for node in nodes}

    def nearest(name: str) -> set[int]:
        return set().union(*({number[parent]} if parent in number else nearest(parent)
                             for parent in parents[name]))
    for slot in plan.slots:
        assert slot.after == tuple(sorted(nearest(slot.name)))


@settings(deadline=None, max_examples=80)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_insertion_decides_between_siblings_only(nodes, random):
    # An own parent for each collective: no two are siblings.
    nodes = [node if "collective" not in node else {**node, "inputs": [f"own {node['name']}"]}
             for node in nodes] + [
        op(f"own {node['name']}", *node["inputs"], controls=node["controls"])
        for node in nodes if "collective" in node]
    fetches = [node["name"] for node in nodes]
    plan = plan_of(nodes, fetches)
    random.shuffle(nodes)
    random.shuffle(fetches)
    shuffled = plan_of(nodes, fetches)
    assert plan == shuffled
    assert plan is None or plan.hash == shuffled.hash


@settings(deadline=None, max_examples=80)
@given(graphs(), st.data())
def test_a_call_is_the_same_as_its_body_written_in_place(nodes, data):
    nodes = [fresh for node in nodes for fresh in _with_own_parent({**node, "controls": []})]
    first = data.draw(st.integers(0, len(nodes)))
    last = data.draw(st.integers(first, len(nodes)))
    inside = [node["name"] for node in nodes[first:last]]
    names = {name: f"c/{name}" for name in inside}
    flat = [{**node, "name": names.get(node["name"], node["name"]),
             "inputs": [names.get(name, name) for name in node["inputs"]]} for node in nodes]
    plan = plan_of(flat, [node["name"] for node in flat])

    arguments = sorted({name for node in nodes[first:last] for name in node["inputs"]}
                       - set(inside))
    body = {"args": arguments, "outputs": inside,
            "nodes": [op(name) for name in arguments] + nodes[first:last]}
    ports = {name: f"c:{number}" for number, name in enumerate(inside)}
    outer = [*nodes[:first], {"name": "c", "op": "PartitionedCall", "inputs": arguments,
                              "calls": ["body"]},
             *[{**node, "inputs": [ports.get(name, name) for name in node["inputs"]]}
               for node in nodes[last:]]]
    fetches = [ports.get(node["name"], node["name"]) for node in nodes]
    region, = analyze(read_dict({"nodes": outer, "fetches": fetches, "functions": {"body": body}}
                                )).regions
    assert region.plan == plan


def _with_own_parent(node: dict) -> list[dict]:
    """So that no two collectives are siblings: only names decide."""
    if "collective" not in node:
        return [node]
    return [op(f"own {node['name']}", *node["inputs"]),
            {**node, "inputs": [f"own {node['name']}"]}]
