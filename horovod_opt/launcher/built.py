"""What this package and the installed Horovod were built with, from the notes of the build.

Upstream imports a framework to ask its library, seconds before each job starts. Where the build
left Horovod out, this says what to do.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

WITHOUT_HOROVOD = "HOROVOD_OPT_WITHOUT_HOROVOD"
REMEDY = (f"install TensorFlow or PyTorch, unset {WITHOUT_HOROVOD}, then pip install "
          "--force-reinstall horovod-opt")
_FILE = Path("horovod_opt", "build.json")  # written by building/commands.py


@functools.cache
def notes() -> dict[str, Any] | None:
    """Those beside Horovod; None without Horovod, or where they cannot be read."""
    horovod = importlib.util.find_spec("horovod")
    if horovod is None or not horovod.origin:
        return None
    # Beside Horovod: in a source tree, Python may find a horovod_opt without notes first.
    try:
        return json.loads((Path(horovod.origin).parents[1] / _FILE).read_text())
    except (OSError, ValueError):
        return None


def controllers() -> frozenset[str] | None:
    """"MPI" and "Gloo", if it was built with them; None if the notes do not say."""
    build = notes()
    if build is None or not {"mpicxx", "gloo"} <= build.keys():
        return None
    parts = {"MPI": build["mpicxx"], "Gloo": build["gloo"]}
    return frozenset(name for name, value in parts.items() if value)


def identity() -> str:
    """What the native libraries were made of, for ranks to compare; "" without notes."""
    return (notes() or {}).get("sources", "")


def is_without_horovod() -> bool:
    """Whether this package's build left Horovod out. False in a checkout that was not built."""
    try:
        return not json.loads((Path(__file__).parents[2] / _FILE).read_text()).get("horovod", True)
    except FileNotFoundError:
        return False


def explain_absence(activity: str) -> str:
    """Why `activity` cannot be done here, and the remedy; "" where there is a horovod."""
    if importlib.util.find_spec("horovod") is not None:
        return ""
    cause = (f"this horovod-opt was built without it ({WITHOUT_HOROVOD}=1)"
             if is_without_horovod() else "no horovod can be imported")
    return f"{activity} needs Horovod, but {cause}. Remedy: {REMEDY}."
