"""libhorovod_opt_io.so: where it is, and its functions, as csrc/io/api/c_api.h has them."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

LIBRARY = "libhorovod_opt_io.so"
FOLDER = Path("horovod_opt", "io")  # of the installed package
PATH = "HIO_LIBRARY"  # names another one, in a developer's tree
VERSION = 8  # HIO_VERSION

OK, TIMEOUT, OVER, CLOSED, LEADER_DIED, RANK_DIED, TOO_FAR, LEADER_FAILED = range(8)
FAILED = -1
ROOM, ASKED, STOPPED = range(3)  # of hio_queue_wait()

_INT, _INT64, _TEXT, _POINTER = ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p


class Order(ctypes.Structure):
    """HioOrder."""

    _fields_ = [*((name, _INT64) for name in (
        "chunks", "chunk_samples", "short_turn", "missing", "shards", "stages", "window",
        "is_shuffled")),
        *((name, ctypes.c_uint64 * 2) for name in ("chunk_key", "window_key")),
        *((name, _POINTER) for name in (
            "shard_chunk", "shard_place", "first_window", "stage_start", "stage_row",
            "stage_width", "stage_turn"))]


class Question(ctypes.Structure):
    """HioQuestion."""

    _fields_ = [*((name, _INT64) for name in ("number", "step", "code", "records")),
                ("statuses", ctypes.POINTER(ctypes.c_int32)), ("text", _TEXT)]


# Name, type of the result, types of the arguments. Arrays are given as the address of their data.
_TABLE = (
    ("hio_version", _INT, ()),
    ("hio_error", _TEXT, ()),
    ("hio_crc32c", ctypes.c_uint32, (ctypes.c_uint32, _POINTER, _INT64)),
    ("hio_permute", _INT, (_INT64, _POINTER, _INT64, _POINTER, _INT64) + (_POINTER,) * 2
     + (_INT, _POINTER)),
    ("hio_order_take", _INT, (_POINTER,) + (_INT64,) * 5 + (_POINTER,) * 2),
    ("hio_order_mark", _INT, (_POINTER,) + (_INT64,) * 6 + (_POINTER,) * 3),
    ("hio_order_find", _INT, (_POINTER,) + (_INT64,) * 6 + (_POINTER,) * 3),
    ("hio_create", _POINTER, (_INT64,) * 5),
    ("hio_file", _INT, (_POINTER,)),
    ("hio_attach", _POINTER, (_INT,)),
    ("hio_watch", _INT, (_POINTER, _INT)),
    ("hio_files", _INT, (_POINTER, _TEXT, _INT64) + (_POINTER,) * 4),
    ("hio_start", _INT, (_POINTER, _INT, _INT)),
    ("hio_announce", _INT, (_POINTER, _INT64, _POINTER, _POINTER, _POINTER)),
    ("hio_loads", _INT, (_POINTER, _INT64) + (_POINTER,) * 8),
    ("hio_gather", _INT, (_POINTER, _INT64, _INT64, _INT64) + (_POINTER,) * 10 + (_INT64,)),
    ("hio_take", _INT, (_POINTER, _INT64, _INT64, _INT64) + (_POINTER,) * 10 + (_INT64,)
     + (_POINTER,) * 3 + (_INT64,)),
    ("hio_queue_create", _POINTER, (_POINTER, _INT64)),
    ("hio_queue_claim", _POINTER, (_INT64,)),
    ("hio_queue_free", None, (_POINTER,)),
    ("hio_queue_number", _INT64, (_POINTER,)),
    ("hio_queue_handed_out", _INT64, (_POINTER,)),
    ("hio_queue_is_over", _INT, (_POINTER,)),
    ("hio_queue_waited", _INT64, (_POINTER,)),
    ("hio_queue_stop", None, (_POINTER,)),
    ("hio_queue_wait", _INT, (_POINTER,)),
    ("hio_queue_add", _INT, (_POINTER,) + (_INT64,) * 3 + (_POINTER,) * 10),
    ("hio_queue_finish", None, (_POINTER, _INT)),
    ("hio_queue_question", None, (_POINTER, _POINTER)),
    ("hio_queue_go_on", None, (_POINTER, _INT64, _INT64, _POINTER, _INT64, ctypes.c_float)),
    ("hio_queue_refuse", None, (_POINTER, _INT64, _TEXT, _INT)),
    ("hio_queue_look", _INT, (_POINTER, _POINTER, _INT64)),
    ("hio_queue_take", _INT, (_POINTER,) * 4 + (_INT64,)),
    ("hio_queue_ask", _INT, (_POINTER, _INT, _TEXT, _POINTER, _INT64)),
    ("hio_queue_hand_out", None, (_POINTER, _INT64)),
    ("hio_done", _INT, (_POINTER, _INT64, _INT64)),
    ("hio_skip_to", _INT, (_POINTER, _INT64, _INT64)),
    ("hio_leave", _INT, (_POINTER, _INT64)),
    ("hio_has_left", _INT, (_POINTER, _INT64)),
    ("hio_cursor", _INT64, (_POINTER, _INT64)),
    ("hio_leader_stats", None, (_POINTER, _POINTER)),
    ("hio_rank_stats", None, (_POINTER, _INT64, _POINTER)),
    ("hio_state", _INT, (_POINTER,)),
    ("hio_dead_rank", _INT64, (_POINTER,)),
    ("hio_end", None, (_POINTER, _INT64)),
    ("hio_fail", None, (_POINTER, _TEXT)),
    ("hio_end_here", None, (_POINTER,)),
    ("hio_free", None, (_POINTER,)),
    ("hio_forget", None, (_POINTER,)),
)


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
    for name, result, arguments in _TABLE:
        try:
            function = getattr(lib, name)
        except AttributeError:
            raise _stale(path, f"has no {name}()") from None
        function.restype, function.argtypes = result, arguments
    if lib.hio_version() != VERSION:
        raise _stale(path, f"is of version {lib.hio_version()}, Python's side of {VERSION}")
    return lib


@functools.lru_cache(maxsize=None)
def with_lock() -> ctypes.PyDLL:
    """The same, for what has to be called with Python's lock."""
    lib = ctypes.PyDLL(library()._name)
    lib.hio_byte_lists.restype = ctypes.py_object
    lib.hio_byte_lists.argtypes = (_POINTER, _INT64) + (_POINTER,) * 3
    return lib


def _candidates() -> Iterator[Path]:
    """Where it may be, in order."""
    if os.environ.get(PATH):
        yield Path(os.environ[PATH])
        return
    yield Path(__file__).parent / LIBRARY
    # A checkout comes first on the path; what is installed has been built.
    for distribution in metadata.distributions(name="horovod-opt"):
        yield Path(str(distribution.locate_file(FOLDER / LIBRARY)))


def _stale(path: Path, what: str) -> ImportError:
    return ImportError(f"{path} {what}: they are from different builds; remedy: pip install "
                       "--force-reinstall horovod-opt (in a developer's tree: make build).")
