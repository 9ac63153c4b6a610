"""Why a rank gets no more samples."""

from __future__ import annotations

from horovod_opt.io.errors import DataError


class ReaderEnded(DataError):
    """The node's reader has ended, or its leader or a rank has died. The text says which."""
