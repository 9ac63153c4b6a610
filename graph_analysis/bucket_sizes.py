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
    buckets, current, filled = [], [], 0
    for slot in slots:
        reason = current and _closes(current, filled, slot, latest[slot.id], threshold)
        if reason:
            buckets.append(Bucket(tuple(current), reason))
            current, filled = [], 0
        current.append(slot)
        filled += slot.nbytes
    if current:
        buckets.append(Bucket(tuple(current), "there is no other tensor"))
    return tuple(buckets)


def _closes(current: Sequence[Slot], filled: int, slot: Slot, latest: int,
            threshold: int) -> Optional[str]:
    first = current[0]
    if latest >= first.id:
        on, = [other.name for other in current if other.id == latest]
        return f"{slot.name} depends on {on}"
    for field, words in COMMON.items():
        ours, theirs = getattr(first, field), getattr(slot, field)
        if ours != theirs:
            if field == "reduce_op":
                ours, theirs = REDUCE_OPS[ours], REDUCE_OPS[theirs]
            return f"{slot.name} has another {words}: {theirs or 'none'}, not {ours or 'none'}"
    if filled + slot.nbytes > threshold:
        return (f"{slot.name} ({size(slot.nbytes)}) would make it "
                f"{size(filled + slot.nbytes)}, over the threshold of {size(threshold)}")
    return None
