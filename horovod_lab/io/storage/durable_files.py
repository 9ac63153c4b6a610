"""What a file system keeps of a file beside its data."""

from __future__ import annotations

import os
from typing import NamedTuple


class Attributes(NamedTuple):
    mode: int  # also says whether it is a folder
    uid: int
    gid: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Attributes:
        return cls(status.st_mode, status.st_uid, status.st_gid, status.st_atime_ns,
                   status.st_mtime_ns, status.st_ctime_ns)
