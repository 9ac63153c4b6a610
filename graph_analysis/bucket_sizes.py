"""How large buckets are: which collectives are fused (chapter 6.3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from graph_analysis.plan import Bucket, Slot, size
from graph_analysis.reductions import REDUCE_OPS

# What tensors in one bucket have in common.
COMMON = {"dtype": "dtype", "reduce_op": "reduce operation", "device": "device",
          "prescale": "prescale factor", "postscale": "postscale factor"}
# How a slot's device begins where its framework knew, before the graph ran, that it is a GPU. What
# follows tells GPUs of a rank apart, and is equal on all ranks.
GPU = "GPU "


class Limits(NamedTuple):
    """How many bytes a bucket of several tensors may have, by where they are (as csrc has it in
    core/plan/bucket_limits.h). The first bucket on a GPU is smaller, as in PyTorch's
    DistributedDataParallel: there is nothing yet that its sum could wait for."""

    main_memory: int
    gpu: int
    first_on_gpu: int

    @staticmethod
    def same(threshold: int) -> Limits:
        return Limits(threshold, threshold, threshold)

    def of(self, on_gpu: bool, is_first: bool) -> int:
        """`is_first`: no bucket before it is on a GPU."""
        if not on_gpu:
            return self.main_memory
        return self.first_on_gpu if is_first else self.gpu


DEFAULT_LIMITS = Limits(4 << 20, 32 << 20, 1 << 20)


def fuse(slots: Sequence[Slot], latest: Mapping[int, int], limits: Limits) -> tuple[Bucket, ...]:
    """Fuses `slots`, in order of their IDs, into buckets of at most as many bytes as `limits` say;
    a tensor that is larger has one for itself.

    `latest` maps an ID to the largest ID of a slot that it depends on, or -1."""
    buckets, current, nbytes, is_first = [], [], 0, True
    for slot in slots:
        reason = current and _closes(current, nbytes, slot, latest[slot.id],
                                     limits.of(_is_on_gpu(current), is_first))
        if reason:
            buckets.append(Bucket(tuple(current), reason))
            is_first = is_first and not _is_on_gpu(current)
            current, nbytes = [], 0
        current.append(slot)
        nbytes += slot.nbytes
    if current:
        buckets.append(Bucket(tuple(current), "there is no other tensor"))
    return tuple(buckets)


def _is_on_gpu(bucket: Sequence[Slot]) -> bool:
    return bucket[0].device.startswith(GPU)


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
