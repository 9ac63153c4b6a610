"""Plans on their way to the native side, and what it says about them: texts, described in csrc."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from graph_analysis import Plan
from graph_analysis.bucket_sizes import Limits
from graph_analysis.reductions import DTYPES


def native_text(plan: Plan, limits: Limits) -> str:
    """The plan as horovod_opt/csrc/core/plan/parse_plan.cc reads it."""
    number = {slot.id: place for place, slot in enumerate(plan.slots)}
    sizes = ",".join(map(str, limits))
    lines = [f"plan\t{plan.hash}\t{sizes}\t{plan.process_set}\t{_field(plan.name)}"]
    for slot in plan.slots:
        after = ",".join(str(number[before]) for before in slot.after if before in number) or "-"
        lines.append(
            f"slot\t{slot.key}\t{slot.nbytes}\t{DTYPES[slot.dtype].number}\t{slot.reduce_op}"
            f"\t{slot.prescale!r}\t{slot.postscale!r}\t{after}\t{_field(slot.name)}"
        )
    for bucket in plan.buckets:
        lines.append("bucket\t" + ",".join(str(number[slot.id]) for slot in bucket.slots))
    return "\n".join(lines) + "\n"


_BLANKS = dict.fromkeys(map(ord, "\t\n\0"), " ")


def _field(text: str) -> str:
    return text.translate(_BLANKS) or "-"


_CALL = "call-"  # kCallHash of csrc/core/plan/plan.h


@dataclasses.dataclass(frozen=True)
class PlanStatus:
    """What has become of a plan on this rank.

    name          the function, the run of a session, or the branch or loop that it belongs to; of
                  a call that recurs, the call
    hash          equal on all ranks that have the same plan
    is_call       whether it is of a call that recurs, not of a graph or an optimizer
    state         "warming up" (its first iterations are negotiated and checked), "ready" (waits
                  for other ranks, or for its next iteration), "active", or "negotiated" (for good)
    reason        why it is not active
    process_set   the number of the process set whose ranks it belongs to; 0: all ranks
    iterations    planned iterations so far
    buckets       names of the tensors of each bucket, in order
    arrived_last  tensor name -> how often it was the last of its bucket
    """

    name: str
    hash: str
    state: str
    reason: str
    process_set: int
    iterations: int
    buckets: tuple[tuple[str, ...], ...]
    arrived_last: dict[str, int]

    @property
    def is_call(self) -> bool:
        return self.hash.startswith(_CALL)


def parse_status(text: str) -> list[PlanStatus]:
    """From the lines that horovod_opt/csrc/binding/python/plan_api.cc writes."""
    return list(_plans([line for line in text.split("\n") if line]))


def _plans(lines: list[str]) -> Iterator[PlanStatus]:
    blocks: list[list[list[str]]] = []
    for line in lines:
        fields = line.split("\t")
        if fields[0] == "plan":
            blocks.append([])
        blocks[-1].append(fields)
    for head, *rest in blocks:
        slots = [fields for fields in rest if fields[0] == "slot"]
        names = [name for _, _, name in slots]
        _, hash_, state, iterations, process_set, name, reason = head
        yield PlanStatus(
            name=name, hash=hash_, state=state, reason=reason,
            process_set=int(process_set), iterations=int(iterations),
            buckets=tuple(
                tuple(names[int(slot)] for slot in fields[1].split(","))
                for fields in rest if fields[0] == "bucket"
            ),
            arrived_last={name: int(times) for _, times, name in slots if int(times)},
        )
