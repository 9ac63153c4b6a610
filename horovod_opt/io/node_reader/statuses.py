"""What became of a record on its way from storage."""

from __future__ import annotations

import os

GOOD, CHECKSUM, TRUNCATED, CHANGED = 0, -1, -2, -3  # csrc/io/files/status.h; above 0 it is an errno

_REASONS = {
    CHECKSUM: "its checksum is not the one that was indexed",
    TRUNCATED: "its file ends before it does",
    CHANGED: "its file has another size or time of change than when it was indexed",
}


def reason(status: int) -> str:
    """In words; "" for a good one."""
    return "" if status == GOOD else _REASONS.get(status) or os.strerror(status)


def describe(index, sample: int, part: int, status: int) -> str:
    """File, offset, key and reason of a record that is not good, and what to do."""
    file, offset = int(index.file[sample, part]), int(index.offset[sample, part])
    key = index.key(sample)
    name = f"sample {sample}" + (f" ({key})" if key else "")
    return (f"{index.path(file)}, offset {offset}, {name}: {reason(status)}; remedy: look at it "
            "with horovod-opt io verify, or rebuild the index of files that were meant to change "
            "with horovod-opt io index --rebuild")
