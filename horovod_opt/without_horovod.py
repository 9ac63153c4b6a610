"""An installation that was built without Horovod, and what it says where Horovod is needed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

VARIABLE = "HOROVOD_OPT_WITHOUT_HOROVOD"
_BUILT = Path(__file__).with_name("build.json")  # written by building/commands.py
REMEDY = (f"install TensorFlow or PyTorch, unset {VARIABLE}, then pip install --force-reinstall "
          "horovod-opt")


def is_built_without() -> bool:
    """Whether this package's build left Horovod out. False in a checkout that was not built."""
    try:
        return not json.loads(_BUILT.read_text()).get("horovod", True)
    except FileNotFoundError:
        return False


def missing(what: str) -> str:
    """Why `what` cannot be done here, and the remedy; "" where there is a horovod."""
    if importlib.util.find_spec("horovod") is not None:
        return ""
    cause = (f"this horovod-opt was built without it ({VARIABLE}=1)" if is_built_without()
             else "no horovod can be imported")
    return f"{what} needs Horovod, but {cause}. Remedy: {REMEDY}."
