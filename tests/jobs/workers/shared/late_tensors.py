"""Planned sums of tensors in main memory whose data comes late, as late_data.cc has them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from horovod.torch.mpi_ops import _basics

from graph_analysis.reductions import DTYPES, SUM

MAIN_MEMORY = -1
FLOAT32 = DTYPES["float32"].number


class LateCall(ctypes.Structure):
    _fields_ = [
        ("first_key", ctypes.c_int64), ("tensors", ctypes.c_int32), ("dies_after", ctypes.c_int32),
        ("values", ctypes.c_void_p), ("elements", ctypes.c_void_p), ("devices", ctypes.c_void_p),
        ("late_us", ctypes.c_void_p), ("sums", ctypes.c_void_p), ("places", ctypes.c_void_p),
        ("by_background", ctypes.c_void_p), ("returned_early", ctypes.c_int32),
        ("ahead_ms", ctypes.c_double),
    ]


class LateTensors:
    """`elements`, `late_us` and `devices`: by tensor; a device other than MAIN_MEMORY is only a
    number here. `first_key`: from here on one for each tensor, and no other has them."""

    def __init__(self, library: str, elements: Sequence[int], late_us: Sequence[int],
                 devices: Sequence[int] = (), first_key: int = 1):
        self._sum = ctypes.CDLL(library).late_data_sum
        self._sum.restype, self._sum.argtypes = ctypes.c_char_p, [ctypes.POINTER(LateCall)]
        self._elements = torch.tensor(elements, dtype=torch.int64)
        self._late_us = torch.tensor(late_us, dtype=torch.int32)
        self._devices = torch.tensor(devices or [MAIN_MEMORY] * len(elements), dtype=torch.int32)
        self._first_key = first_key
        # Of the last call; see LateCall in late_data.cc.
        self.places: list[int] = []
        self.by_background: list[bool] = []
        self.returned_early = False
        self.ahead_ms = 0.0

    def add_plan(self, buckets: Sequence[Sequence[int]], bucket_bytes: int = 1_000_000) -> None:
        """`buckets`: of numbers of tensors; `bucket_bytes`: of one that the ranks rebuild."""
        slots = [f"slot\t{key}\t{4 * elements}\t{FLOAT32}\t{SUM}\t1.0\t1.0\t-\tkey.{key}"
                 for key, elements in enumerate(self._elements.tolist(), self._first_key)]
        lines = [f"plan\tlate{self._first_key}\t{bucket_bytes}\t0\tlate data", *slots,
                 *(f"bucket\t{','.join(map(str, bucket))}" for bucket in buckets), ""]
        problem = _basics.MPI_LIB_CTYPES.horovod_opt_add_plan("\n".join(lines).encode())
        assert not problem, problem

    def sums(self, values: Sequence[torch.Tensor], dies_after: int = -1) -> list[torch.Tensor]:
        """`values`: float32, of one dimension; `dies_after`: this process ends by SIGKILL after so
        many of them are handed over. Raises RuntimeError."""
        assert [value.numel() for value in values] == self._elements.tolist()
        joined = torch.cat(list(values))
        sums = torch.empty_like(joined)
        places = torch.zeros(len(values), dtype=torch.int32)
        by_background = torch.zeros(len(values), dtype=torch.int32)
        call = LateCall(
            self._first_key, len(values), dies_after, joined.data_ptr(), self._elements.data_ptr(),
            self._devices.data_ptr(), self._late_us.data_ptr(), sums.data_ptr(), places.data_ptr(),
            by_background.data_ptr())
        error = self._sum(ctypes.byref(call)).decode()
        if error:
            raise RuntimeError(error)
        self.places, self.by_background = places.tolist(), by_background.bool().tolist()
        self.returned_early, self.ahead_ms = bool(call.returned_early), call.ahead_ms
        return list(sums.split(self._elements.tolist()))
