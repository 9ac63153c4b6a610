"""A plan as JSON: how it is written, and how it is read back, trusting nothing in the text."""

from __future__ import annotations

import json
import math

from graph_analysis.bucket_sizes import COMMON
from graph_analysis.plan import Bucket, Negotiated, Plan, Slot, nbytes
from graph_analysis.reductions import ADASUM, DTYPES, REDUCE_OPS

FORMAT = 3


class PlanError(ValueError):
    """A text that is not a plan; the message says what is wrong and where."""


def write(plan: Plan) -> str:
    return json.dumps({
        "format": FORMAT,
        "name": plan.name,
        "hash": plan.hash,
        "process_set": plan.process_set,
        "buckets": [{"closed": bucket.closed, "slots": [slot._asdict() for slot in bucket.slots]}
                    for bucket in plan.buckets],
        "unplanned": [tensor._asdict() for tensor in plan.unplanned],
    }, indent=1) + "\n"


def read(text: str) -> Plan:
    """Raises PlanError if `text` is not what write() writes."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise PlanError(f"This is not JSON: {error}.") from None
    except RecursionError:
        raise PlanError("This is not a plan: it is nested too deeply.") from None
    _fields(document, "the plan", (
        "format", "name", "hash", "process_set", "buckets", "unplanned"))
    if document["format"] != FORMAT:
        raise PlanError(f"format: {document['format']!r} is not {FORMAT}.")
    plan = Plan(
        _string(document["name"], "name"),
        tuple(_bucket(bucket, f"buckets[{number}]")
              for number, bucket in enumerate(_list(document["buckets"], "buckets"))),
        tuple(_entry(entry, f"unplanned[{number}]")
              for number, entry in enumerate(_list(document["unplanned"], "unplanned"))),
        _natural(document["process_set"], "process_set"))
    ids = [slot.id for slot in plan.slots]
    for earlier, later in zip(ids, ids[1:]):
        if earlier >= later:
            raise PlanError(f"Slot {later} comes after slot {earlier}: IDs must ascend.")
    numbers = set(ids)
    for number, tensor in enumerate(plan.unplanned):
        if tensor.id in numbers:
            raise PlanError(f"unplanned[{number}].id: another collective has {tensor.id} already.")
        numbers.add(tensor.id)
    if document["hash"] != plan.hash:
        raise PlanError(f"hash: {document['hash']!r}, but the content has {plan.hash}; the file "
                        "was changed.")
    return plan


def _bucket(value: object, place: str) -> Bucket:
    _fields(value, place, ("closed", "slots"))
    slots = _list(value["slots"], f"{place}.slots")
    if not slots:
        raise PlanError(f"{place}.slots: a bucket holds at least one tensor.")
    bucket = Bucket(
        tuple(_slot(slot, f"{place}.slots[{number}]") for number, slot in enumerate(slots)),
        _string(value["closed"], f"{place}.closed"))
    first = bucket.slots[0]
    for slot in bucket.slots:
        for field, words in COMMON.items():
            if getattr(slot, field) != getattr(first, field):
                raise PlanError(f"{place}: slots {first.id} and {slot.id} differ in {words}.")
        if slot.after and slot.after[-1] >= first.id:
            raise PlanError(f"{place}: slot {slot.id} cannot be fused with what it depends on.")
    return bucket


def _slot(value: object, place: str) -> Slot:
    _fields(value, place, Slot._fields)
    sizes = _list(value["shape"], f"{place}.shape")
    slot = Slot(
        id=_natural(value["id"], f"{place}.id"),
        name=_string(value["name"], f"{place}.name"),
        shape=tuple(_natural(dim, f"{place}.shape[{k}]") for k, dim in enumerate(sizes)),
        dtype=_choice(value["dtype"], f"{place}.dtype", DTYPES),
        reduce_op=_choice(value["reduce_op"], f"{place}.reduce_op",
                          [op for op in REDUCE_OPS if op != ADASUM]),
        prescale=_number(value["prescale"], f"{place}.prescale"),
        postscale=_number(value["postscale"], f"{place}.postscale"),
        device=_string(value["device"], f"{place}.device"),
        key=_natural(value["key"], f"{place}.key"),
        nbytes=_natural(value["nbytes"], f"{place}.nbytes"),
        after=tuple(_natural(before, f"{place}.after[{k}]")
                    for k, before in enumerate(_list(value["after"], f"{place}.after"))))
    total = nbytes(slot.shape, slot.dtype)
    if slot.nbytes != total:
        raise PlanError(f"{place}.nbytes: {slot.nbytes}, but {slot.dtype}{list(slot.shape)} "
                        f"has {total}.")
    for before in slot.after:
        if before >= slot.id:
            raise PlanError(f"{place}.after: slot {slot.id} cannot come after {before}.")
    if list(slot.after) != sorted(set(slot.after)):
        raise PlanError(f"{place}.after: {list(slot.after)} does not ascend.")
    return slot


def _entry(value: object, place: str) -> Negotiated:
    _fields(value, place, Negotiated._fields)
    return Negotiated(_natural(value["id"], f"{place}.id"), _string(value["name"], f"{place}.name"),
                      _string(value["reason"], f"{place}.reason"))


def _fields(value: object, place: str, names: tuple[str, ...]) -> None:
    if not isinstance(value, dict):
        raise PlanError(f"{place}: {_short(value)} is not an object.")
    missing = [name for name in names if name not in value]
    unknown = [name for name in value if name not in names]
    if missing or unknown:
        raise PlanError(f"{place}: " + (
            f"{missing[0]!r} is missing." if missing else f"{unknown[0]!r} is unknown."))


def _list(value: object, place: str) -> list:
    return _check_type(value, place, list, "a list")


def _string(value: object, place: str) -> str:
    return _check_type(value, place, str, "a string")


def _number(value: object, place: str) -> float:
    try:
        number = float(_check_type(value, place, (int, float), "a number"))
    except OverflowError:
        raise PlanError(f"{place}: {_short(value)} is too large.") from None
    if not math.isfinite(number):
        raise PlanError(f"{place}: {number} is not finite.")
    return number


def _natural(value: object, place: str) -> int:
    if _check_type(value, place, int, "a whole number") < 0:
        raise PlanError(f"{place}: {value} is negative.")
    if value >= 2**63:
        raise PlanError(f"{place}: {_short(value)} is too large.")
    return value


def _choice(value: object, place: str, choices):
    if isinstance(value, (bool, list, dict)) or value not in choices:
        raise PlanError(
            f"{place}: {_short(value)} is none of {', '.join(map(str, choices))}.")
    return value


def _check_type(value: object, place: str, kind, words: str):
    if not isinstance(value, kind) or isinstance(value, bool):
        raise PlanError(f"{place}: {_short(value)} is not {words}.")
    return value


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
