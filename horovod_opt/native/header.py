"""The C header of what Python and the native libraries exchange, generated from tables in Python.

    python -m horovod_opt.native.header > horovod_opt_abi.h
"""

from __future__ import annotations

import hashlib

from graph_analysis.reductions import DTYPES, REDUCE_OPS
from horovod_opt.native import prototypes, structs


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
    return (
        f"{_reductions()}\n{structs.declarations()}\n"
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
        f"{prototypes.declarations()}\n#ifdef __cplusplus\n}}\n#endif\n"
    )


# Python and a native library with the same hash have the same structs and functions.
HASH = hashlib.sha256(_declarations().encode()).hexdigest()[:16]


def header() -> str:
    """The text of horovod_opt_abi.h, for C and C++."""
    return (
        "// Written by `python -m horovod_opt.native.header`; edit the tables in\n"
        "// graph_analysis/reductions.py and in horovod_opt/settings.py, counters.py and\n"
        "// native/prototypes.py instead.\n"
        "#ifndef HOROVOD_OPT_ABI_H_\n#define HOROVOD_OPT_ABI_H_\n\n#include <stdint.h>\n\n"
        f'#define HOROVOD_OPT_ABI "{HASH}"\n\n{_declarations()}\n#endif  // HOROVOD_OPT_ABI_H_\n'
    )


if __name__ == "__main__":
    print(header(), end="")
