"""The C functions that Python calls in a native library: one table."""

from __future__ import annotations

import ctypes

from horovod_opt.native.structs import NativeSettings, NativeStats

# By the name of a type in the table: that of ctypes, and that of C.
_TYPES = {
    "nothing": (None, "void"),
    "int": (ctypes.c_int, "int"),
    "int64": (ctypes.c_int64, "int64_t"),
    "text": (ctypes.c_char_p, "const char*"),
    "settings": (ctypes.POINTER(NativeSettings), "const HorovodOptSettings*"),
    "stats": (ctypes.POINTER(NativeStats), "HorovodOptStats*"),
}

# Name, type of the result, types of the arguments. What they do stands where they are defined, in
# csrc/binding/python.
TABLE = (
    ("horovod_opt_abi", "text", ()),
    ("horovod_opt_configure", "nothing", ("settings", "text", "text")),
    ("horovod_opt_init_error", "text", ()),
    ("horovod_opt_stats", "int", ("stats",)),
    ("horovod_opt_set_input", "nothing", ("stats",)),
    ("horovod_opt_gathered_ranks", "int", ()),
    ("horovod_opt_gathered_stats", "int", ("int", "stats")),
    ("horovod_opt_add_plan", "text", ("text",)),
    ("horovod_opt_remove_plan", "nothing", ("text",)),
    ("horovod_opt_reject_plan", "nothing", ("text", "text")),
    ("horovod_opt_use_key", "nothing", ("int64",)),
    ("horovod_opt_leave_out", "nothing", ("int64", "text")),
    ("horovod_opt_plans", "text", ()),
)


def built_hash(lib: ctypes.CDLL) -> str | None:
    """header.HASH as it was when the library was built; None if it is upstream's."""
    try:
        function = lib.horovod_opt_abi
    except AttributeError:
        return None
    function.restype = _TYPES["text"][0]
    return function().decode()


def declare(lib: ctypes.CDLL) -> None:
    """Tells ctypes of all functions. Raises AttributeError if the library has not all of them."""
    for name, result, arguments in TABLE:
        function = getattr(lib, name)
        function.restype = _TYPES[result][0]
        function.argtypes = [_TYPES[argument][0] for argument in arguments]


def declarations() -> str:
    """The same in C."""
    return "".join(
        f"{_TYPES[result][1]} {name}({', '.join(_TYPES[one][1] for one in arguments) or 'void'});\n"
        for name, result, arguments in TABLE)
