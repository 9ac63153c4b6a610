"""The C functions that Python calls in Horovod's native libraries: one table."""

from __future__ import annotations

import ctypes

from horovod_opt.native import c_interface
from horovod_opt.native.c_interface import Function
from horovod_opt.native.structs import NativeSettings, NativeStats

_STRUCTS = {"HorovodOptSettings": NativeSettings, "HorovodOptStats": NativeStats}
_HASH = "horovod_opt_abi"

# What they do stands where they are defined, in csrc/binding/python.
TABLE = (
    Function("const char*", _HASH),
    Function("void", "horovod_opt_configure",
             "const HorovodOptSettings* settings, const char* text, const char* error"),
    Function("const char*", "horovod_opt_init_error"),
    Function("int", "horovod_opt_stats", "HorovodOptStats* stats"),
    Function("void", "horovod_opt_set_input", "HorovodOptStats* stats"),
    Function("void", "horovod_opt_timeline_span",
             "const char* row, const char* name, int64_t begin, int64_t end"),
    Function("int", "horovod_opt_gathered_ranks"),
    Function("int", "horovod_opt_gathered_stats", "int rank, HorovodOptStats* stats"),
    Function("const char*", "horovod_opt_add_plan", "const char* text"),
    Function("void", "horovod_opt_remove_plan", "const char* hash"),
    Function("void", "horovod_opt_reject_plan", "const char* hash, const char* reason"),
    Function("void", "horovod_opt_leave_out", "int64_t key, const char* reason"),
    Function("const char*", "horovod_opt_plans"),
)


def built_hash(lib: ctypes.CDLL) -> str | None:
    """header.HASH as it was when the library was built; None if it is upstream's."""
    return c_interface.built_hash(lib, _HASH)


def check(lib: ctypes.CDLL, expected: str) -> None:
    """Raises ImportError unless `lib` was built with this package's structs and prototypes."""
    c_interface.check(lib, _HASH, expected)


def declare(lib: ctypes.CDLL) -> None:
    """Tells ctypes of all functions. Raises AttributeError if the library has not all of them."""
    c_interface.declare(lib, TABLE, _STRUCTS)


def declarations() -> str:
    """The same in C."""
    return "".join(map(c_interface.function_declaration, TABLE))
