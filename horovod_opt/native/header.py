"""The C header of what Python and Horovod's native libraries exchange, generated from tables.

    python -m horovod_opt.native.header > horovod_opt_abi.h
"""

from __future__ import annotations

from graph_analysis.reductions import DTYPES, REDUCE_OPS
from horovod_opt.native import c_interface, prototypes, structs


def _reductions() -> str:
    """The table of data types and reduce operations, to be expanded row by row."""
    dtypes = (f"  X({name.upper()}, {dtype.number}, {dtype.bytes})"
              for name, dtype in DTYPES.items())
    reduce_ops = (f'  X({name.upper()}, {number}, "{name}")'
                  for number, name in REDUCE_OPS.items())
    return (
        "// X(name, number, bytes of an element)\n#define HOROVOD_OPT_DTYPES(X) \\\n"
        + " \\\n".join(dtypes)
        + "\n// X(name, number, in words)\n#define HOROVOD_OPT_REDUCE_OPS(X) \\\n"
        + " \\\n".join(reduce_ops) + "\n"
    )


def _declarations() -> str:
    return (f"{_reductions()}\n{structs.declarations()}\n"
            f"{c_interface.for_c_and_cpp(prototypes.declarations())}")


HASH = c_interface.hash_of(_declarations())


def header() -> str:
    """The text of horovod_opt_abi.h, for C and C++."""
    return c_interface.header(
        "horovod_opt_abi", _declarations(),
        "Written by `python -m horovod_opt.native.header`; edit the tables in\n"
        "// graph_analysis/reductions.py and in horovod_opt/settings.py, counters.py and\n"
        "// native/prototypes.py instead.")


if __name__ == "__main__":
    print(header(), end="")
