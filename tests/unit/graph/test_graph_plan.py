"""Plans: hash, JSON, words, table."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from graph_analysis import Bucket, Negotiated, Plan, PlanError, Slot
from graph_analysis.plan import kinds
from graph_analysis.plan_views import plan_table

SLOT = Slot(0, "a", (2, 3), "float32", 1, 1.0, 1.0, "", 7, 24, ())
PLAN = Plan("step", (Bucket((SLOT, SLOT._replace(id=1, name="b")), "c depends on a"),
                     Bucket((SLOT._replace(id=3, name="c", prescale=0.1, after=(0, 1),
                                           device="/CPU:0"),), "there is no other tensor")),
            (Negotiated(2, "g", "HorovodAllgather has a plan of its own once it recurs"),))


def with_first(**changed: object) -> Plan:
    first, *rest = PLAN.buckets
    slot, *more = first.slots
    return Plan("step", (Bucket((slot._replace(**changed), *more), first.closed), *rest))


def test_a_plan_survives_json():
    assert Plan.from_json(PLAN.to_json()) == PLAN
    assert json.loads(PLAN.to_json())["hash"] == PLAN.hash


@pytest.mark.parametrize("changed", [
    {"name": "z"}, {"shape": (3, 2)}, {"dtype": "int32"}, {"reduce_op": 0}, {"prescale": 2.0},
    {"postscale": 2.0}, {"device": "/GPU:0"}])
def test_the_hash_covers_what_ranks_must_agree_on(changed):
    assert with_first(**changed).hash != PLAN.hash


def test_the_hash_covers_buckets_and_order():
    slots = PLAN.slots
    plan = Plan("step", (Bucket(slots, ""),))
    split = Plan("step", (Bucket(slots[:1], ""), Bucket(slots[1:], "")))
    swapped = Plan("step", (Bucket((slots[1], slots[0], slots[2]), ""),))
    assert len({PLAN.hash, plan.hash, split.hash, swapped.hash}) == 4


def test_the_hash_leaves_out_keys_and_the_name_of_the_graph():
    assert with_first(key=99).hash == PLAN.hash
    assert Plan("another", PLAN.buckets).hash == PLAN.hash
    assert len(PLAN.hash) == 16 and int(PLAN.hash, 16) >= 0


def edit(change) -> str:
    document = json.loads(PLAN.to_json())
    change(document)
    return json.dumps(document)


def slot(document: dict) -> dict:
    return document["buckets"][0]["slots"][0]


@pytest.mark.parametrize("text, message", [
    ("", "This is not JSON"),
    ("{", "This is not JSON"),
    ("[" * 100_000, "This is not a plan: it is nested too deeply|This is not JSON"),
    ("[]", r"the plan: \[\] is not an object"),
    ("{}", "the plan: 'format' is missing"),
    (edit(lambda d: d.update(format=1)), "format: 1 is not 3"),
    (edit(lambda d: d.update(process_set=-1)), "process_set: -1 is negative"),
    (edit(lambda d: d.update(process_set=1)), "hash: .* the file was changed"),
    (edit(lambda d: d.update(extra=2)), "the plan: 'extra' is unknown"),
    (edit(lambda d: d.update(buckets={})), r"buckets: \{\} is not a list"),
    (edit(lambda d: d["buckets"][1].update(slots=[])), r"buckets\[1\].slots: .* at least one"),
    (edit(lambda d: slot(d).pop("key")), r"buckets\[0\].slots\[0\]: 'key' is missing"),
    (edit(lambda d: slot(d).update(id=-1)), r"slots\[0\].id: -1 is negative"),
    (edit(lambda d: slot(d).update(id=True)), r"id: true is not a whole number"),
    (edit(lambda d: slot(d).update(id=1.5)), r"id: 1.5 is not a whole number"),
    (edit(lambda d: slot(d).update(id=5)), "Slot 5 comes after slot 1|Slot 1 comes after slot 5"),
    (edit(lambda d: slot(d).update(name=3)), "name: 3 is not a string"),
    (edit(lambda d: slot(d).update(shape=[2, None])), r"shape\[1\]: null is not a whole number"),
    (edit(lambda d: slot(d).update(shape=[2, 4])), r"nbytes: 24, but float32\[2, 4\] has 32"),
    (edit(lambda d: slot(d).update(dtype="string")), 'dtype: "string" is none of uint8'),
    (edit(lambda d: slot(d).update(dtype=[])), r"dtype: \[\] is none of"),
    (edit(lambda d: slot(d).update(reduce_op=2)), "reduce_op: 2 is none of 0, 1, 3"),
    (edit(lambda d: slot(d).update(prescale="x")), 'prescale: "x" is not a number'),
    (edit(lambda d: slot(d).update(prescale=float("nan"))), "prescale: nan is not finite"),
    (edit(lambda d: slot(d).update(prescale=2.0)), r"slots 0 and 1 differ in prescale factor"),
    (edit(lambda d: slot(d).update(after=[0])), "slot 0 cannot come after 0"),
    (edit(lambda d: d["buckets"][0]["slots"][1].update(after=[0])),
     "slot 1 cannot be fused with what it depends on"),
    (edit(lambda d: d["buckets"][1]["slots"][0].update(after=[1, 0])),
     r"after: \[1, 0\] does not ascend"),
    (edit(lambda d: slot(d).update(name="z")), "hash: .*the file was changed"),
    (edit(lambda d: d.update(hash=None)), "hash: None"),
    (edit(lambda d: d["unplanned"][0].pop("reason")), r"unplanned\[0\]: 'reason' is missing"),
    (edit(lambda d: d["unplanned"][0].update(id=1)),
     r"unplanned\[0\].id: another collective has 1 already"),
    (edit(lambda d: d["unplanned"].append(d["unplanned"][0])),
     r"unplanned\[1\].id: another collective has 2 already"),
])
def test_a_text_that_is_no_plan_is_refused_with_the_place(text, message):
    with pytest.raises(PlanError, match=message):
        Plan.from_json(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner,
                                                                max_size=3), max_leaves=8)


@settings(deadline=None, max_examples=150)
@given(st.data(), json_values)
def test_no_value_in_any_place_gets_past_the_reader(data, value):
    """Whatever replaces a field: either it is refused as PlanError or nothing has changed."""
    document = json.loads(PLAN.to_json())
    places = [document, document["buckets"][0], slot(document), document["unplanned"][0]]
    place = data.draw(st.sampled_from(places))
    field = data.draw(st.sampled_from(sorted(place)))
    place[field] = value
    try:
        plan = Plan.from_json(json.dumps(document))
    except PlanError:
        return
    assert plan.hash == PLAN.hash


def test_the_explanation_names_tensors_reasons_and_what_stays_negotiated():
    text = PLAN.explain()
    assert f"Plan step, hash {PLAN.hash}: 3 tensors, 72 B, in 2 buckets." in text
    assert "Bucket 0: 2 tensors, 48 B. It ends here because c depends on a." in text
    assert "0  a  float32[2, 3], 24 B, sum\n" in text
    assert ("3  c  float32[2, 3], 24 B, sum, scaled by 0.1 before and 1 after, on /CPU:0, "
            "after 0 and 1\n") in text
    assert ("1 tensor not in the plan, negotiated as ever:\n"
            "  2  g, because HorovodAllgather has a plan of its own once it recurs\n") in text


def test_every_kind_of_negotiated_collectives_is_one_line():
    numbers = [*range(10, 170), 171]
    plan = Plan("step", PLAN.buckets, (
        *(Negotiated(number, f"broadcast{number}", "it is a broadcast") for number in numbers),
        Negotiated(170, "gather", "it is an allgather")))
    lines = plan.explain().splitlines()
    assert lines[-3:] == [
        "162 tensors not in the plan, negotiated as ever:",
        "  10-169, 171  161 tensors, such as broadcast10, because it is a broadcast",
        "  170  gather, because it is an allgather"]
    console = Console(width=200, file=io.StringIO())
    console.print(plan_table(plan))
    rows = [line for line in console.file.getvalue().splitlines() if "negotiated" in line]
    assert len(rows) == 2
    assert "10-169, 171" in rows[0] and "161 tensors, such as broadcast10" in rows[0]


def test_of_many_runs_of_ids_the_first_and_the_last_are_shown():
    kind, = kinds([Negotiated(number, f"g{number}", "why") for number in range(0, 200, 2)])
    assert kind == ("0, 2, 4, ..., 198", "100 tensors, such as g0", "why")


def test_the_table_has_every_tensor_and_reason():
    console = Console(width=200, file=io.StringIO())
    console.print(plan_table(PLAN))
    text = console.file.getvalue()
    for words in ("a", "b", "2x3", "float32", "24 B", "c depends on a", "negotiated",
                  "HorovodAllgather", PLAN.hash):
        assert words in text
