"""The C header of what Python and the native libraries exchange, from the tables.

    python -m horovod_opt.native.header > horovod_opt_abi.h
"""

from __future__ import annotations

import hashlib

from horovod_opt.native import prototypes, structs


def _declarations() -> str:
    return (
        f"{structs.declarations()}\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n"
        f"{prototypes.declarations()}\n#ifdef __cplusplus\n}}\n#endif\n"
    )


# Python and a native library with the same hash have the same structs and functions.
HASH = hashlib.sha256(_declarations().encode()).hexdigest()[:16]


def header() -> str:
    """The text of horovod_opt_abi.h, for C and C++."""
    return (
        "// Written by `python -m horovod_opt.native.header`; edit the tables in\n"
        "// horovod_opt/settings.py, counters.py and native/prototypes.py instead.\n"
        "#ifndef HOROVOD_OPT_ABI_H_\n#define HOROVOD_OPT_ABI_H_\n\n#include <stdint.h>\n\n"
        f'#define HOROVOD_OPT_ABI "{HASH}"\n\n{_declarations()}\n#endif  // HOROVOD_OPT_ABI_H_\n'
    )


if __name__ == "__main__":
    print(header(), end="")
