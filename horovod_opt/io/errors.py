"""What goes wrong with data, its index, and what callers ask of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

MOST_SHOWN = 160  # characters of an argument


class DataError(Exception):
    """Data that cannot be used. The text names the file, the record, and the remedy."""


class TruncatedFile(DataError):
    """A file of which the samples from somewhere on cannot be found."""


class InputError(DataError, ValueError):
    """An argument or a setting that cannot be used. The text names it, value, and remedy."""


class Missing(DataError):
    """No index of this data is kept in any of the places where it is looked for."""


class Stale(DataError):
    """The files are not those that the index was built from."""


class Damaged(DataError):
    """The index itself cannot be used: damaged, forged, or of a newer version."""


class DamagedRecords(UserWarning):
    """The index was built, but some records do not match the checksums that their file holds."""


class Skip(Exception):
    """What a decode function raises of a sample that is to be left out, where the data was opened
    with bad="skip" or "skip-all". Its text is the reason."""


class ReaderEnded(DataError):
    """The node's reader has ended, or its process or a rank has died. The text says which."""


def reader_failed(reason: str, prefix: str = "") -> DataError:
    """The same error on every rank of the node, that of the reader's own process among them."""
    return DataError(f"{prefix}the node's reader, which reads for this rank, cannot go on: "
                     f"{reason}")


def require_one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raises InputError for another value of the argument `name`."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name}={tell(value)}; remedy: one of {', '.join(choices)}")


def require_flags(**flags: Any) -> None:
    """Raises InputError for what is neither True nor False: most texts are as good as True."""
    for name, value in flags.items():
        if type(value).__name__ not in ("int", "bool_", "bool") or value not in (0, 1):
            raise InputError(f"{name}={tell(value)}; remedy: True or False")


def tell(value: Any) -> str:
    """An argument in one short line, whatever a user has given: arrays by type and shape, what is
    long by its begin."""
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "dtype") and len(shape):
        return f"an array {value.dtype}{list(shape)}"
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, (list, tuple)) and len(value) > MOST_SHOWN:
        value = value[:MOST_SHOWN]
    try:
        text = " ".join(repr(value).split())
    except Exception as error:
        text = f"{type(value).__name__}, whose repr() raises {type(error).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
