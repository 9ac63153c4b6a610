"""How a column of numbers is stored: one value, runs of constant stride, or as it is.

Only a column that is stored as it is, is shared between ranks that map the file: runs are chosen
where they take a quarter of the bytes. A run has at most RUN rows, so that what a column takes in
memory is warranted by what it takes in the file, however it was forged.
"""

from __future__ import annotations

import numpy as np

CONSTANT, RUNS, RAW = KINDS = ("constant", "runs", "raw")
RUN = 4096  # rows
AT_ONCE = 256  # runs that are expanded at a time, so that it takes little more than the column
ROWS_A_BYTE = -(-RUN // 24)  # that runs can make of a byte: a run takes 3 int64


def encode(column: np.ndarray) -> tuple[str, bytes]:
    """Kind and bytes of a column of integers, of any shape, in C order."""
    flat = column.reshape(-1)
    if len(flat) and (flat == flat[0]).all():
        return CONSTANT, flat[:1].astype("<i8").tobytes()
    raw_bytes = flat.nbytes
    starts = _starts(flat.astype(np.int64, copy=False)) if len(flat) > 2 else None
    if starts is None or len(starts) * 24 * 4 > raw_bytes:
        return RAW, flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()
    values = flat[starts].astype(np.int64)
    lengths = np.diff(starts, append=len(flat))
    strides = np.where(lengths > 1, flat[np.minimum(starts + 1, len(flat) - 1)] - values, 0)
    pieces = -(-lengths // RUN)
    run = np.repeat(np.arange(len(starts)), pieces)
    piece = np.arange(len(run)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    coded = np.stack([starts[run] + piece * RUN, values[run] + strides[run] * piece * RUN,
                      strides[run]])
    return RUNS, coded.astype("<i8").tobytes()


def decode(kind: str, block: np.ndarray, dtype: np.dtype, rows: int) -> np.ndarray:
    """A column of `rows` numbers from its bytes (uint8[...]). Raises ValueError if they are none.

    The result shares the memory of `block` if the kind is raw, and takes none if it is constant.
    """
    if kind == RAW:
        if len(block) != rows * dtype.itemsize:
            raise ValueError(f"{len(block)} bytes for {rows} rows of {dtype.itemsize}")
        return block.view(dtype)
    if kind == CONSTANT:
        if len(block) != 8 or not rows:
            raise ValueError(f"{len(block)} bytes for the value of {rows} rows")
        return np.broadcast_to(_fit(block.view("<i8"), dtype), (rows,))
    if kind == RUNS:
        return _expand(block, dtype, rows)
    raise ValueError(f"kind {kind!r}, which is none of {', '.join(KINDS)}")


def _starts(flat: np.ndarray) -> np.ndarray | None:
    """First rows of runs of one stride; None if there are too many to be worth it."""
    changes = np.diff(np.diff(flat)) != 0
    if np.count_nonzero(changes) * 24 > flat.nbytes:
        return None
    rows = np.flatnonzero(changes) + 2  # whose difference to the row before is not that row's
    # A jump changes two differences: its second row goes on with the run that its first begins.
    begins = np.ones(len(rows), bool)
    begins[1:] = np.diff(rows) != 1
    place = np.arange(len(rows))
    group = np.maximum.accumulate(np.where(begins, place, 0))
    return np.concatenate([[0], rows[(place - group) % 2 == 0]]).astype(np.int64)


def _expand(block: np.ndarray, dtype: np.dtype, rows: int) -> np.ndarray:
    if not len(block) or len(block) % 24:
        raise ValueError(f"{len(block)} bytes, which are no runs")
    starts, values, strides = block.view("<i8").reshape(3, -1)
    lengths = np.diff(starts, append=rows)
    if starts[0] != 0 or (lengths < 1).any() or (lengths > RUN).any():
        raise ValueError(f"runs that do not make {rows} rows")
    column = np.empty(rows, dtype)
    for first in range(0, len(starts), AT_ONCE):
        block_runs = slice(first, first + AT_ONCE)
        begin, end = starts[block_runs][0], starts[block_runs][-1] + lengths[block_runs][-1]
        piece = np.arange(begin, end) - np.repeat(starts[block_runs], lengths[block_runs])
        piece *= np.repeat(strides[block_runs], lengths[block_runs])
        piece += np.repeat(values[block_runs], lengths[block_runs])
        column[begin:end] = _fit(piece, dtype)
    return column


def _fit(column: np.ndarray, dtype: np.dtype) -> np.ndarray:
    limits = np.iinfo(dtype)
    if len(column) and (column.min() < limits.min or column.max() > limits.max):
        raise ValueError(f"values outside of {dtype}")
    return column.astype(dtype, copy=False)
