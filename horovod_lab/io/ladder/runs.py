"""Few large reads in place of many small ones: records that are close to each other in a file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from horovod_lab.io.ladder.asked import Asked

GAP = 64 << 10  # bytes between two records that are rather read than skipped


def read(asked: Asked, file: int, offset: np.ndarray, size: int, page_bytes: int) -> list[bytes]:
    """Records of one size in the order of `offset`, each run of them by one call."""
    order = np.argsort(offset, kind="stable")
    records: list[bytes] = [b""] * len(offset)
    for run in _runs(offset[order], size):
        places = offset[order[run]]
        begin, end = int(places[0]), int(places[-1]) + size
        data = asked.pread(file, end - begin, begin, _others(places, size, page_bytes))
        for i, at in zip(order[run].tolist(), (places - begin).tolist()):
            records[i] = data[at:at + size]
    return records


def _runs(offset: np.ndarray, size: int) -> Iterator[slice]:
    """Of sorted offsets."""
    ends = np.flatnonzero(np.diff(offset) > size + GAP) + 1
    for begin, end in zip([0, *ends], [*ends, len(offset)]):
        yield slice(begin, end)


def _others(places: np.ndarray, size: int, page_bytes: int) -> int:
    """Bytes of the pages in between that hold none of these records."""
    first, last = places // page_bytes, (places + size - 1) // page_bytes
    return int(np.maximum(first[1:] - last[:-1] - 1, 0).sum()) * page_bytes
