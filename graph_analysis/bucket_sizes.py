"""How large buckets are: which collectives are fused (chapter 6.3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from graph_analysis.plan import Bucket, Slot, size
from graph_analysis.reductions import REDUCE_OPS

# What tensors in one bucket have in common.
COMMON = {"dtype": "dtype", "reduce_op": "reduce operation", "device": "device",
          "prescale": "prescale factor", "postscale": "postscale factor"}


def fuse(slots: Sequence[Slot], latest: Mapping[int, int], threshold: int) -> tuple[Bucket, ...]:
    """Fuses `slots`, in order of their IDs, into buckets of at most `threshold` bytes; a tensor
    that is larger has one for itself.

    `latest` maps an ID to the largest ID of a slot that it depends on, or -1."""
    buckets, current, nbytes = [], [], 0
    for slot in slots:
        reason = current and _closes(current, nbytes, slot, latest[slot.id], threshold)
        if reason:
            buckets.append(Bucket(tuple(current), reason))
            current, nbytes = [], 0
        current.append(slot)
        nbytes += slot.nbytes
    if current:
        buckets.append(Bucket(tuple(current), "there is no other tensor"))
    return tuple(buckets)


def _closes(current: Sequence[Slot], nbytes: int, slot: Slot, latest: int,
            threshold: int) -> Optional[str]:
    first = current[0]
    if latest >= first.id:
        name, = [member.name for member in current if member.id == latest]
        return f"{slot.name} depends on {name}"
    for field, words in COMMON.items():
        value, next_value = getattr(first, field), getattr(slot, field)
        if value != next_value:
            if field == "reduce_op":
                value, next_value = REDUCE_OPS[value], REDUCE_OPS[next_value]
            return f"{slot.name} has another {words}: {next_value or 'none'}, not {value or 'none'}"
    if nbytes + slot.nbytes > threshold:
        return (f"{slot.name} ({size(slot.nbytes)}) would make it "
                f"{size(nbytes + slot.nbytes)}, over the threshold of {size(threshold)}")
    return None
