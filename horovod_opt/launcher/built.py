"""What the installed Horovod was built with, from the notes of its build.

Upstream imports a framework to ask its library, seconds before each job starts.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path


@functools.cache
def controllers() -> frozenset[str] | None:
    """"MPI" and "Gloo", if it was built with them; None if the build has left no notes."""
    horovod = importlib.util.find_spec("horovod")
    if horovod is None or not horovod.origin:
        return None
    # Beside Horovod: in a source tree, Python may find a horovod_opt without notes first.
    notes = Path(horovod.origin).parents[1] / "horovod_opt" / "build.json"
    try:
        built = json.loads(notes.read_text())
        named = {"MPI": built["mpicxx"], "Gloo": built["gloo"]}
    except (OSError, ValueError, KeyError):
        return None
    return frozenset(name for name, found in named.items() if found)
