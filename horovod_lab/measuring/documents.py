"""The JSON files of all experiments: what was measured, with which command, on which machine."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from horovod_lab.measuring import machine

VERSION = 1


class DocumentError(Exception):
    """The file is not one of ours, or only a part of one; the text names it and the remedy."""


def new(kind: str, program: Sequence[str]) -> dict[str, Any]:
    """What every file begins with. `program` is how the user started it, without arguments."""
    return {
        "kind": kind, "version": VERSION,
        "command": shlex.join([*program, *sys.argv[1:]]),
        "started": now(),
        "machine": machine.describe(),
    }


def now() -> str:
    """The time, as files have it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def save(path: Path, document: dict[str, Any]) -> None:
    """At once or not at all, so that an interruption never leaves half a file."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(document, indent=1) + "\n")
    temporary.replace(path)


def load(path: Path, *kinds: str) -> dict[str, Any]:
    """A file that `save` has written, of one of the kinds.

    Raises:
        DocumentError: there is none, it is cut off, or it is something else.
    """
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(
            f"{path} is not JSON, or only a part of it ({error}); remedy: measure it again"
        ) from error
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in kinds:
        raise DocumentError(
            f"{path} is no {' or '.join(kinds)} of horovod-opt: its kind is {kind!r}")
    if document.get("version") != VERSION:
        raise DocumentError(
            f"{path} is of version {document.get('version')!r}, this horovod-opt reads version "
            f"{VERSION}; remedy: measure it again, or use the horovod-opt that wrote it")
    return document
