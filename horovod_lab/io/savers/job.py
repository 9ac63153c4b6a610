"""A saver's two processes: one saves two versions, the other reads what a crash may have left.

    python -m horovod_lab.io.savers.job save SAVER FOLDER
    python -m horovod_lab.io.savers.job load SAVER

The first looks up .mark-old and .mark-new in FOLDER when each version is saved. The second reads a
folder from each line of its input, and answers it by a line of JSON: what it has found there.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from horovod_lab.io import savers
from horovod_lab.io.crashes.operations import MARK
from horovod_lab.io.savers import NEW, NOTHING, OLD, OTHER, SAVERS, WEIGHTS

STEPS = {1: OLD, 2: NEW}


def weights(step: int) -> np.ndarray:
    """Of a version: no two blocks are the same."""
    return np.arange(WEIGHTS, dtype=np.float32) + np.float32(step * 100_000)


def mark(folder: Path, step: int) -> None:
    os.path.exists(folder / f"{MARK}{STEPS[step]}")


def judge(found: Any) -> str:
    """What these weights are; None: there were none."""
    if found is None:
        return NOTHING
    for step, name in STEPS.items():
        if np.array_equal(np.asarray(found).reshape(-1), weights(step)):
            return name
    return OTHER


def make(name: str) -> Any:
    saver = SAVERS[name]
    return getattr(importlib.import_module(f"{savers.__name__}.{saver.module}"), saver.name)()


def answer(saver: Any, folder: Path) -> tuple[str, str]:
    """The outcome, and the text of an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return judge(saver.load(folder)), ""
    except FileNotFoundError as error:
        empty = not any(path.is_file() for path in folder.rglob("*"))
        return (NOTHING if empty else savers.ERROR), f"{error}"[:300]
    except BaseException as error:  # as DCP's is
        return savers.ERROR, f"{type(error).__name__}: {error}"[:300]


def main(task: str, name: str, *more: str) -> None:
    saver = make(name)
    if task == "save":
        folder, = map(Path, more)
        saver.save(folder, lambda step: mark(folder, step))
        return
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        print(json.dumps(answer(saver, Path(line.strip()))), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # threads of frameworks have nothing more to say
