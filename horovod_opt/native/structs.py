"""The structs that Python and the native libraries exchange, from the tables of settings and
counters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from horovod_opt import counters, settings

_C_TYPES = {"i": "int64_t", "d": "double"}
_CTYPES = {"i": ctypes.c_int64, "d": ctypes.c_double}


class NativeSettings(ctypes.Structure):
    """HorovodOptSettings."""

    _fields_ = [(row.field, ctypes.c_int64) for row in settings.TABLE]


class NativeStats(ctypes.Structure):
    """HorovodOptStats."""

    _fields_ = [(row.field, _CTYPES[row.kind]) for row in counters.TABLE]


def to_native(values: settings.Settings) -> NativeSettings:
    """The settings as the native side takes them."""
    fields = {row.field: getattr(values, row.field) for row in settings.TABLE}
    return NativeSettings(**{**fields, "mode": values.mode_bits})


def from_native(native: NativeStats) -> counters.Stats:
    """The counters as users see them."""
    fields = {row.field: getattr(native, row.field) for row in counters.TABLE}
    fields["mode"] = settings.mode_name(native.mode)
    fields["controller"] = counters.CONTROLLERS[native.controller]
    fields["messages"] = counters.MESSAGES[native.messages]
    return counters.Stats(**fields)


def _enumerators(kind: str, names: Sequence[str]) -> str:
    return "".join(f"  HOROVOD_OPT_{kind}_{name.upper()} = {number},\n"
                   for number, name in enumerate(names))


def declarations() -> str:
    modes = "".join(
        f"  HOROVOD_OPT_MODE_{mode.upper()} = {bit},\n" for mode, bit in settings.MODES.items()
    )
    controllers = _enumerators("CONTROLLER", counters.CONTROLLERS)
    messages = _enumerators("MESSAGES", counters.MESSAGES)
    fields = "".join(f"  int64_t {row.field};\n" for row in settings.TABLE)
    counts = "".join(f"  {_C_TYPES[row.kind]} {row.field};\n" for row in counters.TABLE)
    return (
        f"enum {{\n{modes}}};\n\nenum {{\n{controllers}}};\n\nenum {{\n{messages}}};\n\n"
        f"typedef struct {{\n{fields}}} HorovodOptSettings;\n\n"
        f"typedef struct {{\n{counts}}} HorovodOptStats;\n"
    )
