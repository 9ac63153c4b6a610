"""What the installed Horovod was built with, from the notes of its build.

Upstream imports a framework to ask its library, seconds before each job starts.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any


@functools.cache
def notes() -> dict[str, Any] | None:
    """As building/commands.py wrote them; None without Horovod, or where they cannot be read."""
    horovod = importlib.util.find_spec("horovod")
    if horovod is None or not horovod.origin:
        return None
    # Beside Horovod: in a source tree, Python may find a horovod_opt without notes first.
    file = Path(horovod.origin).parents[1] / "horovod_opt" / "build.json"
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


def controllers() -> frozenset[str] | None:
    """"MPI" and "Gloo", if it was built with them; None if the notes do not say."""
    built = notes()
    if built is None or not {"mpicxx", "gloo"} <= built.keys():
        return None
    named = {"MPI": built["mpicxx"], "Gloo": built["gloo"]}
    return frozenset(name for name, found in named.items() if found)
