"""The classes of threads: one table from names to classes, which users can extend."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

BACKGROUND = "background thread"
SCHEDULING = "graph scheduling"
INPUT = "input pipeline"
HELPERS = "MPI/NCCL helpers"
MAIN = "Python main"
REST = "rest"
CLASSES = (BACKGROUND, SCHEDULING, INPUT, HELPERS, MAIN, REST)

# The first pattern that fits decides. Names with @ are no thread's own: see names.py.
TABLE = (
    ("@main", MAIN),
    ("@background", BACKGROUND),
    ("hvd-*", BACKGROUND),
    ("@child python*", INPUT),  # the workers of PyTorch's DataLoader before PyTorch 2.7
    ("@child pt_data*", INPUT),
    ("@child *", REST),
    ("@tf.data", INPUT),
    ("tf_data*", INPUT),
    ("pt_data*", INPUT),
    ("NCCL*", HELPERS),
    ("async", HELPERS),  # of UCX
    ("@unnamed poll", HELPERS),
    ("@unnamed futex", SCHEDULING),
    ("tf_*", SCHEDULING),
    ("pt_*", SCHEDULING),
)


class ClassesError(ValueError):
    """The user's table cannot be used; the text names the file and says why."""


class Classes:
    """The table, after rows that a user puts before it."""

    def __init__(self, before: Sequence[tuple[str, str]] = ()):
        self._rows = (*before, *TABLE)
        self._by_name: dict[str, str] = {}

    def of(self, name: str) -> str:
        if name not in self._by_name:
            self._by_name[name] = next(
                (class_ for pattern, class_ in self._rows if fnmatchcase(name, pattern)), REST)
        return self._by_name[name]


def read_classes(path: Path) -> Classes:
    """A JSON object whose names are patterns, as in {"my-reader-*": "input pipeline"}. A class may
    be one that the table does not have.

    Raises:
        ClassesError: there is no such file, or it is something else.
    """
    try:
        rows = json.loads(path.read_text())
    except OSError as error:
        raise ClassesError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ClassesError(f"{path} is not JSON: {error}") from error
    if not isinstance(rows, dict) or not all(isinstance(class_, str) for class_ in rows.values()):
        raise ClassesError(
            f'{path}: wanted an object of patterns and classes, as in {{"my-reader-*": "{INPUT}"}}')
    return Classes(tuple(rows.items()))
