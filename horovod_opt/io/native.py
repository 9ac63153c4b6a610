"""libhorovod_opt_io.so: where it is, and its functions, as native_table.py has them."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from horovod_opt.io import native_table
from horovod_opt.native import c_interface

if TYPE_CHECKING:
    import numpy as np

LIBRARY = "libhorovod_opt_io.so"
FOLDER = Path("horovod_opt", "io")  # of the installed package
PATH = "HIO_LIBRARY"  # names another one, in a developer's tree
_SHORT = 1 << 14  # bytes whose checksum takes less than handing Python's lock over


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, loaded once. Raises ImportError: it is not there, or of another build."""
    candidates = list(_candidates())
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise ImportError(
            f"{LIBRARY} is in none of {', '.join(map(str, candidates))}. Remedy: pip install "
            "--force-reinstall horovod-opt (in a developer's tree: make build).")
    lib = ctypes.CDLL(str(path))
    c_interface.check(lib, native_table.HASH_FUNCTION, native_table.HASH)
    c_interface.declare(lib, native_table.FUNCTIONS, native_table.STRUCTS)
    return lib


@functools.lru_cache(maxsize=None)
def with_lock() -> ctypes.PyDLL:
    """The same, for what has to be called with Python's lock."""
    lib = ctypes.PyDLL(library()._name)
    c_interface.declare(lib, native_table.FUNCTIONS, native_table.STRUCTS)
    lib.hio_byte_lists.restype = ctypes.py_object
    return lib


def beside_library(name: str) -> Path:
    """The path of another library of the same build. Raises ImportError: it is not there."""
    path = Path(library()._name).with_name(name)
    if not path.is_file():
        raise ImportError(f"{path} is not there. Remedy: pip install --force-reinstall "
                          "horovod-opt (in a developer's tree: make build).")
    return path


def error() -> str:
    """Of the last call of this thread that failed."""
    return library().hio_error().decode(errors="replace")


@functools.lru_cache(maxsize=None)
def _checksums() -> tuple[Callable[..., int], Callable[..., int]]:
    """With Python's lock, and without it."""
    return with_lock().hio_crc32c, library().hio_crc32c


def crc32c(data: bytes | np.ndarray, crc: int = 0) -> int:
    """CRC-32C of what `crc` is of, followed by these bytes; an array is uint8 and contiguous."""
    size = len(data)
    if not isinstance(data, bytes):
        data = data.ctypes.data
    return _checksums()[size >= _SHORT](crc, data, size)


def _candidates() -> Iterator[Path]:
    """Where it may be, in order."""
    if os.environ.get(PATH):
        yield Path(os.environ[PATH])
        return
    yield Path(__file__).parent / LIBRARY
    # A checkout comes first on the path; what is installed has been built.
    for distribution in metadata.distributions(name="horovod-opt"):
        yield Path(str(distribution.locate_file(FOLDER / LIBRARY)))
