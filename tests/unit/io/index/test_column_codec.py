"""How columns are stored."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_opt.io.index import column_codec

I4, I8, U4 = np.dtype("<i4"), np.dtype("<i8"), np.dtype("<u4")
LIMIT = 1 << 62


def there_and_back(column):
    kind, block = column_codec.encode(column)
    back = column_codec.decode(kind, np.frombuffer(block, np.uint8), column.dtype, column.size)
    assert back.dtype == column.dtype and np.array_equal(back, column.reshape(-1))
    return kind, len(block)


@given(st.lists(st.tuples(st.integers(-LIMIT, LIMIT), st.integers(-10**9, 10**9),
                          st.integers(1, 200)), max_size=8))
def test_runs_of_any_stride(runs):
    column = np.concatenate([np.zeros(0, np.int64)] + [
        start + stride * np.arange(length, dtype=np.int64) for start, stride, length in runs])
    kind, length = there_and_back(column)
    if len(column) > 200 * (len(runs) + 1):
        assert kind != column_codec.RAW


@given(st.lists(st.integers(0, 3), max_size=300), st.sampled_from([I4, I8, U4]))
def test_any_column(values, dtype):
    there_and_back(np.array(values, dtype))


@pytest.mark.parametrize(("column", "kind", "most"), [
    (np.full(10**6, 7, I4), column_codec.CONSTANT, 8),
    (np.arange(10**6, dtype=I8) * 3016 + 12, column_codec.RUNS, 24 * 245),
    (np.repeat(np.arange(1000, dtype=I4), 1000), column_codec.RUNS, 24 * 1000),
    (np.random.default_rng(1).integers(0, 9, 10**5).astype(U4), column_codec.RAW, 4 * 10**5),
    (np.array([5], I8), column_codec.CONSTANT, 8),
    (np.array([], I8), column_codec.RAW, 0),
    (np.array([[1, 2], [3, 4]], I8), column_codec.RAW, 32),
])
def test_kinds(column, kind, most):
    stored_kind, length = there_and_back(column)
    assert stored_kind == kind and length <= most


def test_what_is_raw_or_constant_takes_no_memory():
    raw = np.arange(10**6, dtype=I8)
    shared = column_codec.decode(column_codec.RAW, raw.view(np.uint8), I8, 10**6)
    assert np.shares_memory(raw, shared)
    constant = column_codec.decode(column_codec.CONSTANT, raw[:1].view(np.uint8), I8, 1 << 40)
    assert constant.strides == (0,)


def runs(*columns):
    return np.array(columns, "<i8").view(np.uint8).reshape(-1)


@pytest.mark.parametrize(("kind", "block", "dtype", "rows", "reason"), [
    ("raw", np.zeros(7, np.uint8), I8, 1, "7 bytes for 1 rows of 8"),
    ("constant", np.zeros(9, np.uint8), I8, 1, "9 bytes for the value"),
    ("constant", np.zeros(8, np.uint8), I8, 0, "for the value of 0 rows"),
    ("constant", runs(1 << 31), I4, 5, "values outside of int32"),
    ("constant", runs(-1), U4, 5, "values outside of uint32"),
    ("runs", np.zeros(23, np.uint8), I8, 1, "which are no runs"),
    ("runs", np.zeros(0, np.uint8), I8, 0, "which are no runs"),
    ("runs", runs([1], [0], [0]), I8, 5, "runs that do not make 5 rows"),
    ("runs", runs([0], [0], [0]), I8, 4097, "runs that do not make 4097 rows"),
    ("runs", runs([0, 3], [0, 0], [0, 0]), I8, 3, "runs that do not make 3 rows"),
    ("runs", runs([0, -3], [0, 0], [0, 0]), I8, 3, "runs that do not make 3 rows"),
    ("runs", runs([0], [0], [1 << 31]), I4, 3, "values outside of int32"),
    ("zip", np.zeros(8, np.uint8), I8, 1, "kind 'zip', which is none of"),
    (None, np.zeros(8, np.uint8), I8, 1, "kind None, which is none of"),
])
def test_what_is_no_column(kind, block, dtype, rows, reason):
    with pytest.raises(ValueError, match=reason):
        column_codec.decode(kind, block, dtype, rows)


@settings(max_examples=100)
@given(st.binary(max_size=240), st.integers(0, 1 << 40))
def test_forged_runs_take_no_more_memory_than_they_warrant(block, rows):
    tracemalloc.start()
    try:
        column_codec.decode(column_codec.RUNS, np.frombuffer(block, np.uint8), I8, rows)
    except ValueError:
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 100_000 + len(block) / 24 * column_codec.RUN * 8 * 6
