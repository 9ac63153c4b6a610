"""Why a rank gets no more samples."""

from __future__ import annotations

from horovod_opt.io.errors import DataError


class ReaderEnded(DataError):
    """The node's reader has ended, or its leader or a rank has died. The text says which."""


def leader_failed(reason: str, prefix: str = "") -> DataError:
    """The same error on every rank of the node, its leader's own among them."""
    return DataError(f"{prefix}the node's leader, which reads for this rank, cannot go on: "
                     f"{reason}")
