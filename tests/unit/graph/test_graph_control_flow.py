"""Branches, loops and calls: what is written in place, what is a region, what is only reported."""

from __future__ import annotations

import pytest

from graph_analysis import GraphError, analyze, read_dict

TWO = {"HorovodSize": 2, "HorovodProcessSetIncluded": 1}


def allreduce(name: str, *inputs: str, **attributes: object) -> dict:
    return {"name": name, "op": "HorovodAllreduce", "inputs": list(inputs),
            "collective": {"shape": [4], **attributes}}


def op(name: str, *inputs: str, kind: str = "Op", **fields: object) -> dict:
    return {"name": name, "op": kind, "inputs": list(inputs), **fields}


def const(name: str, value: object) -> dict:
    return op(name, kind="Const", value=value)


def body(*nodes: dict, args: tuple = ("x",), outputs: tuple = ("y",)) -> dict:
    return {"args": list(args), "outputs": list(outputs),
            "nodes": [*[op(name, kind="_Arg") for name in args], *nodes]}


REDUCES = body(allreduce("r", "x"), op("y", "r"))
PASSES = body(op("y", "x"))


def if_(name: str, predicate: str, *inputs: str, then: str = "reduces",
        otherwise: str = "passes", **fields: object) -> dict:
    return op(name, predicate, *inputs, kind="StatelessIf", calls=[then, otherwise], **fields)


def result(*nodes: dict, fetches: tuple, functions: dict | None = None, **options: object):
    functions = {"reduces": REDUCES, "passes": PASSES, **(functions or {})}
    return analyze(read_dict({"name": "main", "nodes": list(nodes), "fetches": list(fetches),
                              "functions": functions}), **options)


def names(region) -> list[list[str]]:
    return [[slot.name for slot in bucket.slots] for bucket in region.plan.buckets]


@pytest.mark.parametrize("kind", ["If", "StatelessIf"])
def test_a_decided_branch_is_written_in_place(kind):
    analysis = result(
        op("a"), op("b"), const("yes", True),
        {**if_("one", "yes", "a"), "op": kind}, {**if_("two", "yes", "b"), "op": kind},
        fetches=("one", "two"))
    region, = analysis.regions
    assert names(region) == [["one/r", "two/r"]]


def test_nodes_of_a_branch_that_bear_its_name_keep_theirs():
    inner = body(allreduce("cond/r", "x"), op("y", "cond/r"))
    region, = result(op("a"), const("yes", True), if_("cond", "yes", "a", then="own"),
                     fetches=("cond",), functions={"own": inner}).regions
    assert names(region) == [["cond/r"]]


def test_the_branch_not_taken_does_not_exist():
    analysis = result(op("a"), const("no", False), if_("one", "no", "a"), fetches=("one",))
    region, = analysis.regions
    assert (region.plan, region.unplanned, region.reason) == (None, (), "it has no collectives")


def test_dependencies_lead_into_a_decided_branch_and_out_of_it():
    region, = result(allreduce("first"), const("yes", True), if_("two", "yes", "first"),
                     allreduce("last", "two"), fetches=("last",)).regions
    assert names(region) == [["first"], ["two/r"], ["last"]]
    assert [slot.after for slot in region.plan.slots] == [(), (0,), (1,)]


def test_a_decided_branch_runs_as_a_whole():
    """TensorFlow may run an If as one operation, which starts when all of its inputs are there."""
    branch = body(allreduce("r", "x"), allreduce("s", "z"), args=("x", "z"), outputs=("r", "s"))
    region, = result(op("a"), allreduce("b"), const("yes", True),
                     if_("c", "yes", "a", "b", then="both"), op("d", "c:0"), allreduce("e", "d"),
                     fetches=("e",), functions={"both": branch}).regions
    assert names(region) == [["b"], ["c/r", "c/s"], ["e"]]


@pytest.mark.parametrize("nodes, branch", [
    ([const("p", 1)], True),
    ([const("p", 0)], False),
    ([const("q", True), op("p", "q", kind="Identity")], True),
    ([const("q", True), op("p", "q", kind="LogicalNot")], False),
    ([op("unknown"), const("q", False), op("p", "unknown", "q", kind="LogicalAnd")], False),
    ([op("unknown"), const("q", True), op("p", "unknown", "q", kind="LogicalAnd")], None),
    ([op("unknown"), const("q", True), op("p", "q", "unknown", kind="LogicalOr")], True),
    ([op("unknown"), const("q", False), op("p", "q", "unknown", kind="LogicalOr")], None),
    ([op("p", kind="HorovodSize")], True),
    ([op("p", kind="HorovodRank")], None),
    ([op("p", kind="HorovodSize", process_set=1)], None),
    ([op("p")], None),
    *[([op("s", kind="HorovodSize"), const("c", value), op("p", "s", "c", kind=kind)], branch)
      for kind, value, branch in [
        ("Equal", 2, True), ("Equal", 1, False), ("NotEqual", 2, False), ("NotEqual", 1, True),
        ("Greater", 1, True), ("Greater", 2, False), ("GreaterEqual", 2, True),
        ("GreaterEqual", 3, False), ("Less", 3, True), ("Less", 2, False),
        ("LessEqual", 2, True), ("LessEqual", 1, False)]],
    # What Horovod writes for elastic jobs.
    ([op("i", kind="HorovodProcessSetIncluded"), op("s", kind="HorovodSize"), const("one", 1),
      op("e", "i", "one", kind="Equal"), op("g", "s", "one", kind="Greater"),
      op("p", "e", "g", kind="LogicalAnd")], True),
])
def test_predicates(nodes, branch):
    regions = result(*nodes, op("a"), if_("if", "p", "a"), fetches=("if",), values=TWO).regions
    planned = [region.name for region in regions if region.plan]
    assert planned == {True: ["main"], False: [], None: ["if/then"]}[branch]


def test_a_predicate_that_would_take_forever_is_not_decided():
    nodes = [op("p0", kind="HorovodSize"), *[
        op(f"p{number}", f"p{number - 1}", f"p{number - 1}", kind="LogicalOr")
        for number in range(1, 100)]]
    regions = result(*nodes, op("a"), if_("if", "p99", "a"), fetches=("if",)).regions
    assert [region.name for region in regions] == ["main", "if/then"]


@pytest.mark.parametrize("inner, planned", [(True, [["o/inner/r"]]), (False, None)])
def test_a_predicate_may_come_through_the_arguments_of_the_bodies_around_it(inner, planned):
    outer = body(if_("inner", "p", "x"), op("y", "inner"), args=("p", "x"))
    region, = result(op("a"), const("yes", True), const("value", inner),
                     if_("o", "yes", "value", "a", then="outer"),
                     fetches=("o",), functions={"outer": outer}).regions
    assert (region.plan and names(region)) == planned


@pytest.mark.parametrize("index, branch", [(0, "c/r"), (1, "c/s"), (2, "c/s"), (-1, "c/s")])
def test_a_decided_case_is_written_in_place(index, branch):
    case = body(allreduce("s", "x"), op("y", "s"))
    region, = result(op("a"), const("i", index),
                     op("c", "i", "a", kind="StatelessCase", calls=["reduces", "other"]),
                     fetches=("c",), functions={"other": case}).regions
    assert names(region) == [[branch]]


def test_the_branches_of_an_undecided_if_are_regions():
    branch = body(allreduce("s", "x"), op("y", "s"))
    analysis = result(op("a"), op("p"), allreduce("m", "a"),
                      if_("one", "p", "m", otherwise="other"), fetches=("one",),
                      functions={"other": branch})
    assert [(region.name, names(region)) for region in analysis.regions] == [
        ("main", [["m"]]), ("one/then", [["r"]]), ("one/else", [["s"]])]


def test_a_branch_without_collectives_is_no_region():
    regions = result(op("a"), op("p"), if_("one", "p", "a"), fetches=("one",)).regions
    assert [region.name for region in regions] == ["main", "one/then"]


def test_an_undecided_case_has_a_region_for_each_branch():
    regions = result(op("a"), op("i"), op("c", "i", "a", kind="Case", calls=[
        "reduces", "passes", "reduces"]), fetches=("c",)).regions
    assert [region.name for region in regions] == ["main", "c/branch0", "c/branch2"]


def test_condition_and_body_of_a_loop_are_regions_and_nest():
    loop = body(if_("if", "p", "x"), allreduce("b", "if"), op("y", "b"), op("p"))
    condition = body(allreduce("c", "x"), op("y", "c"))
    regions = result(
        op("a"), op("w", "a", kind="While", calls=["condition", "loop"]), fetches=("w",),
        functions={"loop": loop, "condition": condition}).regions
    assert [(region.name, region.plan and names(region)) for region in regions] == [
        ("main", None), ("w/cond", [["c"]]), ("w/body", [["b"]]), ("w/body/if/then", [["r"]])]


def test_regions_without_an_order_stay_negotiated_with_all_inside():
    loop = body(if_("if", "p", "x"), op("y", "if"), op("p"))
    analysis = result(op("a"), op("p"), allreduce("m", "a"), if_("one", "p", "a"),
                      op("w", "a", kind="While", calls=["passes", "loop"]),
                      fetches=("one", "w", "m"), functions={"loop": loop})
    main, *nested = analysis.regions
    assert names(main) == [["m"]]
    assert [region.name for region in nested] == ["one/then", "w/body/if/then"]
    for region in nested:
        assert region.plan is None
        assert region.reason in ("neither of one and w waits for the other",
                                 "neither of w and one waits for the other")
        assert region.unplanned == ((0, "r", region.reason),)


@pytest.mark.parametrize("link", ["inputs", "controls"])
def test_regions_with_an_order_are_planned(link):
    second = if_("two", "p", "a")
    second.setdefault(link, [])
    second[link] = [*second[link], "between"]
    regions = result(op("a"), op("p"), if_("one", "p", "a"), op("between", "one"), second,
                     fetches=("two",),
                     functions={"reduces": body(allreduce("r", "x"), op("y", "r"),
                                                args=("x", "z"))}).regions
    assert [region.plan is not None for region in regions] == [False, True, True]


CALL = {"kind": "StatefulPartitionedCall", "calls": ["two"]}
TWO_OUTPUTS = body(allreduce("r", "x"), allreduce("s", "z"), args=("x", "z"), outputs=("r", "s"))


@pytest.mark.parametrize("kind", ["PartitionedCall", "StatefulPartitionedCall", "two"])
def test_calls_are_written_in_place(kind):
    region, = result(op("a"), allreduce("b"), op("c", "a", "b", kind=kind, calls=["two"]),
                     allreduce("d", "c:0"), allreduce("e", "c:1"), fetches=("d", "e"),
                     functions={"two": TWO_OUTPUTS}).regions
    # d waits for r alone, which waits for a alone: with b it has nothing to do.
    after = {slot.name: {region.plan.slots[k].name for k in slot.after}
             for slot in region.plan.slots}
    assert after == {"b": set(), "c/r": set(), "c/s": {"b"}, "d": {"c/r"}, "e": {"c/s"}}


def test_a_call_may_only_carry_dependencies():
    region, = result(allreduce("a"), op("b"), op("c", "a", "b", **CALL), allreduce("d", "c:1"),
                     fetches=("d",), functions={"two": TWO_OUTPUTS}, inline_calls=False).regions
    assert names(region) == [["a"], ["d"]]


def test_depth_is_the_same_as_if_written_in_place():
    """A call and its arguments are no nodes of their own: b is as deep as z, and its name first."""
    inner = body(op("y", "x"))
    region, = result(op("s"), op("t"), op("c", "s", kind="PartitionedCall", calls=["inner"]),
                     op("d", "t"), allreduce("b", "c"), allreduce("z", "d"), allreduce("a", "d"),
                     fetches=("a", "b", "z"), functions={"inner": inner}).regions
    assert names(region) == [["z", "a", "b"]]


def test_siblings_are_recognised_through_the_arguments_of_branches():
    region, = result(op("s"), const("yes", True), if_("z", "yes", "s"), if_("a", "yes", "s"),
                     fetches=("a", "z")).regions
    assert names(region) == [["z/r", "a/r"]]


def test_control_edges_reach_into_calls_and_out_of_them():
    inner = {"args": [], "outputs": [], "control_outputs": ["r"], "nodes": [allreduce("r")]}
    region, = result(allreduce("a"), op("c", kind="PartitionedCall", calls=["inner"],
                                        controls=["a"]),
                     {**allreduce("d"), "controls": ["c"]}, fetches=("d",),
                     functions={"inner": inner}).regions
    assert names(region) == [["a"], ["c/r"], ["d"]]


def test_what_a_decided_branch_waits_for_holds_it_back():
    region, = result(op("x"), allreduce("a"), const("yes", True),
                     if_("c", "yes", "x", controls=["a"]), fetches=("c",)).regions
    assert names(region) == [["a"], ["c/r"]]


def test_who_reads_what_a_call_returns_may_wait_for_others():
    region, = result(op("x"), allreduce("a"), op("c", "x", kind="PartitionedCall",
                                                 calls=["passes"]),
                     {**allreduce("b", "c"), "controls": ["a"]}, fetches=("b",)).regions
    assert names(region) == [["a"], ["b"]]


def test_what_a_call_waits_for_holds_back_its_arguments():
    region, = result(op("x"), allreduce("a"),
                     op("c", "x", kind="PartitionedCall", calls=["reduces"], controls=["a"]),
                     fetches=("c",)).regions
    assert names(region) == [["a"], ["c/r"]]


def test_calls_nest():
    outer = body(op("i", "x", "x", **CALL), op("y", "i:1"))
    region, = result(op("a"), op("o", "a", kind="PartitionedCall", calls=["outer"]),
                     fetches=("o",), functions={"outer": outer, "two": TWO_OUTPUTS}).regions
    assert names(region) == [["o/i/s"]]


def test_what_a_call_returns_may_be_its_argument_or_that_of_a_call_inside():
    swap = {"args": ["p", "q"], "outputs": ["q", "p"],
            "nodes": [op("p", kind="_Arg"), op("q", kind="_Arg")]}
    outer = {"args": ["p", "q"], "outputs": ["i:0", "i:1"], "nodes": [
        op("p", kind="_Arg"), op("q", kind="_Arg"),
        op("i", "p", "q", kind="PartitionedCall", calls=["swap"])]}
    region, = result(allreduce("a"), op("b"),
                     op("o", "a", "b", kind="PartitionedCall", calls=["outer"]),
                     allreduce("first", "o:0"), allreduce("second", "o:1"),
                     fetches=("first", "second"), functions={"swap": swap, "outer": outer}).regions
    after = {slot.name: slot.after for slot in region.plan.slots}
    assert after["first"] == () and after["second"] != ()


def test_a_function_that_is_not_known_only_carries_dependencies():
    region, = result(allreduce("a"), op("c", "a", kind="PartitionedCall", calls=["elsewhere"]),
                     allreduce("d", "c"), fetches=("d",)).regions
    assert names(region) == [["a"], ["d"]]


@pytest.mark.parametrize("node, fetch, message", [
    (op("c", "a", "a", kind="PartitionedCall", calls=["reduces"]), "c",
     "c gives reduces another number of arguments than the 1 it takes"),
    (op("c", "a", kind="PartitionedCall", calls=["reduces"]), "c:1", "c has no output 1"),
    (op("c", "a", kind="If", calls=["reduces", "passes"]), "c", "c gives reduces another number"),
    (op("c", kind="If", calls=["reduces", "passes"]), "c", "c has no predicate"),
])
def test_a_call_that_does_not_fit_its_function_is_an_error(node, fetch, message):
    with pytest.raises(GraphError, match=message):
        result(const("a", 1), node, fetches=(fetch,))


def test_a_function_that_calls_itself_ends():
    endless = body(allreduce("r", "x"), op("y", "r", kind="PartitionedCall", calls=["endless"]))
    region, = result(op("a"), op("c", "a", kind="PartitionedCall", calls=["endless"]),
                     fetches=("c",), functions={"endless": endless}).regions
    assert names(region) == [["c/r"]]


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("second, reported", [
    (op("d", "a", kind="PartitionedCall", calls=["reduces"]), {"reduces"}),
    (op("d", "c", kind="PartitionedCall", calls=["reduces"]), set()),
    (op("d", "a", kind="PartitionedCall", calls=["wraps"]), {"reduces"}),
    (op("d", "a", kind="PartitionedCall", calls=["passes"]), set()),
    (op("d", "p", "a", kind="If", calls=["reduces", "passes"]), {"reduces"}),
])
def test_functions_that_may_run_twice_at_a_time_are_reported(second, reported, inline):
    wraps = body(op("w", "x", kind="PartitionedCall", calls=["reduces"]), op("y", "w"))
    analysis = result(op("a"), op("p"), op("c", "a", kind="PartitionedCall", calls=["reduces"]),
                      second, fetches=("c", "d"), functions={"wraps": wraps},
                      inline_calls=inline)
    assert {name for name, _ in analysis.concurrent_calls} == reported
    for _, reason in analysis.concurrent_calls:
        assert "main calls it from" in reason and " c" in reason and " d" in reason


def test_functions_that_run_twice_at_a_time_are_found_in_bodies():
    twice = body(op("c", "x", kind="PartitionedCall", calls=["reduces"]),
                 op("d", "x", kind="PartitionedCall", calls=["reduces"]), op("y", "c", "d"))
    analysis = result(op("a"), op("w", "a", kind="While", calls=["passes", "twice"]),
                      fetches=("w",), functions={"twice": twice})
    (name, reason), = analysis.concurrent_calls
    assert name == "reduces" and reason.startswith("twice calls it from")


def test_a_call_in_a_branch_that_is_not_taken_is_not_reported():
    wraps = body(op("w", "x", kind="PartitionedCall", calls=["reduces"]), op("y", "w"))
    analysis = result(op("a"), const("no", False), if_("i", "no", "a", then="wraps"),
                      op("c", "a", kind="PartitionedCall", calls=["reduces"]),
                      fetches=("i", "c"), functions={"wraps": wraps})
    assert analysis.concurrent_calls == ()
