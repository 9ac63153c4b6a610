"""What goes wrong with data, its index, and what callers ask of them."""

from __future__ import annotations


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
