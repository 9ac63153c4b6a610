"""A C interface as tables in Python: its header, and the same for ctypes.

Python and a native library with the same hash have the same structs and functions: the library was
compiled with the header, returns the hash that was in it, and is refused if that is another one.
"""

from __future__ import annotations

import ctypes
import enum
import hashlib
import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

_WIDTH = 100
_NUMBERS = {
    "int": ctypes.c_int, "float": ctypes.c_float, "double": ctypes.c_double,
    "uint8_t": ctypes.c_uint8, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
}
# "int64_t first", "uint64_t key[2]", "const char* text", "void (*release)(void* object)"
_DECLARATION = re.compile(r"(?P<type>[\w* ]+?)\s*(?:\(\*(?P<pointer>\w+)\)\(.*\)"
                          r"|\b(?P<name>\w+)(?:\[(?P<count>\d+)\])?)")


class Function(NamedTuple):
    """`result` and `arguments` as C has them, "int64_t rank, const int64_t* ends"; `doc`: what a
    caller has to know, where the header is to say it."""

    result: str
    name: str
    arguments: str = ""
    doc: str = ""


class Struct(NamedTuple):
    """`fields` as C has them, one declaration each."""

    name: str
    fields: tuple[str, ...]
    doc: str = ""


class Constant(enum.IntEnum):
    """A base of enumerations for both sides: `NAME = number, "what it means"`."""

    def __new__(cls, number: int, doc: str = "") -> Constant:
        constant = int.__new__(cls, number)
        constant._value_ = number
        constant.doc = doc
        return constant


def ctype_of(c_type: str, structs: Mapping[str, type[ctypes.Structure]]) -> object:
    """Of texts and of pointers to `structs` their own, of any other pointer an address."""
    plain = c_type.replace("const ", "").strip()
    if plain == "void":
        return None
    if plain == "char*":
        return ctypes.c_char_p
    if plain.endswith("*"):
        pointed_to = structs.get(plain[:-1])
        return ctypes.POINTER(pointed_to) if pointed_to else ctypes.c_void_p
    return _NUMBERS[plain]


def _parsed(declaration: str, structs: Mapping[str, type[ctypes.Structure]]) -> tuple[str, object]:
    """Name and type for ctypes of a field or an argument."""
    parts = _DECLARATION.fullmatch(declaration.strip())
    if parts is None:
        raise ValueError(f"no declaration that is understood: {declaration!r}")
    if parts["pointer"]:
        return parts["pointer"], ctypes.c_void_p
    kind = ctype_of(parts["type"], structs)
    return parts["name"], kind * int(parts["count"]) if parts["count"] else kind


def structure(struct: Struct) -> type[ctypes.Structure]:
    """The struct for ctypes; `c_struct` is what it was made from."""
    fields = [_parsed(field, {}) for field in struct.fields]
    return type(struct.name, (ctypes.Structure,),
                {"__doc__": struct.doc, "_fields_": fields, "c_struct": struct})


def fields(c_type: str, *names: str) -> tuple[str, ...]:
    """Fields of one type."""
    return tuple(f"{c_type} {name}" for name in names)


def declare(lib: ctypes.CDLL, functions: Iterable[Function],
            structs: Mapping[str, type[ctypes.Structure]]) -> None:
    """Tells ctypes of all functions. Raises AttributeError if the library has not all of them."""
    for function in functions:
        symbol = getattr(lib, function.name)
        symbol.restype = ctype_of(function.result, structs)
        symbol.argtypes = [_parsed(argument, structs)[1]
                           for argument in function.arguments.split(",") if argument]


def enum_declaration(constants: type[Constant], prefix: str) -> str:
    """The enumeration in C."""
    rows = "".join(f"  {prefix}{constant.name} = {constant.value},"
                   + (f" /* {constant.doc} */" if constant.doc else "") + "\n"
                   for constant in constants)
    return f"{_comment(constants.__doc__)}enum {{\n{rows}}};\n"


def struct_declaration(struct: Struct) -> str:
    """The struct in C."""
    fields = "".join(f"  {field};\n" for field in struct.fields)
    return f"{_comment(struct.doc)}typedef struct {{\n{fields}}} {struct.name};\n"


def function_declaration(function: Function) -> str:
    """The function in C."""
    head = f"{function.result} {function.name}("
    whole = ", ".join(argument.strip().replace(" ", "\0")  # only between arguments lines are cut
                      for argument in function.arguments.split(","))
    text = textwrap.fill(whole or "void", _WIDTH - len(");"), initial_indent=head,
                         subsequent_indent=" " * len(head), break_long_words=False)
    return f"{_comment(function.doc)}{text});\n".replace("\0", " ")


def _comment(doc: str | None) -> str:
    if not doc:
        return ""
    return textwrap.fill(f"/* {' '.join(doc.split())} */", _WIDTH, subsequent_indent="   ",
                         break_long_words=False, break_on_hyphens=False) + "\n"


def for_c_and_cpp(declarations: str) -> str:
    """Functions, as both languages link them."""
    return ("#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
            f"{declarations}\n#ifdef __cplusplus\n}}\n#endif\n")


def hash_of(declarations: str) -> str:
    return hashlib.sha256(declarations.encode()).hexdigest()[:16]


def header(name: str, declarations: str, where_from: str) -> str:
    """The text of `name`.h, which has its hash as a macro in capital letters."""
    macro = name.upper()
    return (f"// {where_from}\n#ifndef {macro}_H_\n#define {macro}_H_\n\n#include <stdint.h>\n\n"
            f'#define {macro} "{hash_of(declarations)}"\n\n'
            f"{declarations}\n#endif  // {macro}_H_\n")


def built_hash(lib: ctypes.CDLL, function: str) -> str | None:
    """The hash of the header that the library was compiled with; None if it is another library."""
    try:
        symbol = getattr(lib, function)
    except AttributeError:
        return None
    symbol.restype = ctypes.c_char_p
    return symbol().decode()


def check(lib: ctypes.CDLL, function: str, expected: str) -> None:
    """Raises ImportError unless `lib` was compiled with the header that has this hash."""
    built = built_hash(lib, function)
    if built != expected:
        raise ImportError(
            f"{lib._name} does not belong to this horovod_opt ({Path(__file__).parents[1]}): its "
            f"native interface is {'none' if built is None else built}, Python's is {expected}. "
            "They are from different builds; remedy: pip install --force-reinstall horovod-opt (in "
            "a developer's tree: make build)."
        )
