"""The structs that Python and the native libraries exchange, from the tables of settings and
counters."""

from __future__ import annotations

from collections.abc import Sequence

from horovod_opt import counters, settings
from horovod_opt.native.c_interface import Struct, fields, struct_declaration, structure

_C_TYPES = {"i": "int64_t", "d": "double"}


_SETTINGS = [row.field for row in settings.TABLE if not row.is_path]


def _settings() -> Struct:
    return Struct("HorovodOptSettings", fields("int64_t", *_SETTINGS))


def _stats() -> Struct:
    return Struct("HorovodOptStats",
                  tuple(f"{_C_TYPES[row.kind]} {row.field}" for row in counters.TABLE))


NativeSettings = structure(_settings())
NativeStats = structure(_stats())


def to_native(values: settings.Settings) -> NativeSettings:
    """The settings as the native side takes them."""
    by_field = {field: getattr(values, field) for field in _SETTINGS}
    return NativeSettings(**{**by_field, "mode": values.mode_bits})


def from_native(native: NativeStats) -> counters.Stats:
    """The counters as users see them."""
    by_field = {row.field: getattr(native, row.field) for row in counters.TABLE}
    by_field["mode"] = settings.mode_name(native.mode)
    by_field["controller"] = counters.CONTROLLERS[native.controller]
    by_field["messages"] = counters.MESSAGES[native.messages]
    return counters.Stats(**by_field)


def _enumerators(kind: str, names: Sequence[str]) -> str:
    return "".join(f"  HOROVOD_OPT_{kind}_{name.upper()} = {number},\n"
                   for number, name in enumerate(names))


def declarations() -> str:
    modes = "".join(
        f"  HOROVOD_OPT_MODE_{mode.upper()} = {bit},\n" for mode, bit in settings.MODES.items()
    )
    controllers = _enumerators("CONTROLLER", counters.CONTROLLERS)
    messages = _enumerators("MESSAGES", counters.MESSAGES)
    return (
        f"enum {{\n{modes}}};\n\nenum {{\n{controllers}}};\n\nenum {{\n{messages}}};\n\n"
        f"{struct_declaration(_settings())}\n{struct_declaration(_stats())}"
    )
