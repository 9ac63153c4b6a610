"""A plan for people: in words, and as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_analysis.plan import Plan, Slot, kinds, size
from graph_analysis.reductions import REDUCE_OPS

if TYPE_CHECKING:
    from rich.table import Table


def explain(plan: Plan) -> str:
    count = len(plan.buckets)
    lines = [f"Plan {plan.name}, hash {plan.hash}: {_tensors(len(plan.slots))}, "
             f"{size(plan.nbytes)}, in {count} bucket{'s' * (count != 1)}."]
    for number, bucket in enumerate(plan.buckets):
        lines.append("")
        lines.append(f"Bucket {number}: {_tensors(len(bucket.slots))}, {size(bucket.nbytes)}. "
                     f"It ends here because {bucket.closed}.")
        lines += [f"  {slot.id}  {slot.name}  {describe(slot)}" for slot in bucket.slots]
    if plan.unplanned:
        lines += ["", f"{_tensors(len(plan.unplanned))} not in the plan, negotiated as ever:"]
        lines += [f"  {ids}  {tensors}, because {reason}"
                  for ids, tensors, reason in kinds(plan.unplanned)]
    return "\n".join(lines) + "\n"


def describe(slot: Slot) -> str:
    """For example: float32[3, 64], 768 B, average, after 0 and 2."""
    words = [f"{slot.dtype}{list(slot.shape)}", size(slot.nbytes), REDUCE_OPS[slot.reduce_op]]
    if slot.prescale != 1 or slot.postscale != 1:
        words.append(f"scaled by {slot.prescale:g} before and {slot.postscale:g} after")
    if slot.device:
        words.append(f"on {slot.device}")
    if slot.after:
        words.append("after " + " and ".join(filter(None, [
            ", ".join(map(str, slot.after[:-1])), str(slot.after[-1])])))
    return ", ".join(words)


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count} tensors"


def plan_table(plan: Plan) -> Table:
    """One row for each tensor, one section for each bucket, and one row for each kind of what stays
    negotiated."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("bucket", "id", "tensor", "shape", "dtype", "bytes", "why the bucket ends",
                  title=escape(f"{plan.name}: plan {plan.hash}, {size(plan.nbytes)}"))
    for column in (0, 1, 5):
        table.columns[column].justify = "right"
    table.columns[2].overflow = table.columns[6].overflow = "fold"
    for number, bucket in enumerate(plan.buckets):
        for position, slot in enumerate(bucket.slots):
            table.add_row(
                "" if position else str(number), str(slot.id), escape(slot.name),
                "x".join(map(str, slot.shape)) or "scalar", slot.dtype, size(slot.nbytes),
                escape(bucket.closed) if slot is bucket.slots[-1] else "")
        table.add_section()
    for ids, tensors, reason in kinds(plan.unplanned):
        table.add_row("", ids, escape(tensors), "", "", "", escape(f"negotiated: {reason}"))
    return table
