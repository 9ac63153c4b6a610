"""A plan in words."""

from __future__ import annotations

from graph_analysis.negotiated import kinds
from graph_analysis.plan import Plan, Slot, size
from graph_analysis.reductions import REDUCE_OPS


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
