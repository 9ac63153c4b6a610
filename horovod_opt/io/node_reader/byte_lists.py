"""Lists of bytes objects that C++ fills in, so that no sample is copied once more for Python."""

from __future__ import annotations

import ctypes

import numpy as np

from horovod_opt.io import native

_USED = ("PyList_New", "PyList_SetItem", "PyBytes_FromStringAndSize", "PyBytes_AsString",
         "Py_DecRef")  # HioPython
_api = (ctypes.c_void_p * len(_USED))(*(
    ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _USED))


def new_byte_lists(ends: np.ndarray, sizes: np.ndarray, places: np.ndarray) -> list[list[bytes]]:
    """Lists, the i-th of which has bytes objects of `sizes` before ends[i]; int64, contiguous. They
    are not filled in: `places`, int64 of as many elements as sizes, gets the addresses to write
    to, which may be done until somebody else is given the objects."""
    return native.with_lock().hio_byte_lists(
        ctypes.addressof(_api), len(ends), ends.ctypes.data, sizes.ctypes.data,
        places.ctypes.data)
