"""Where compressed files are unpacked, and whether this node has room for that."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Union

import numpy as np

from horovod_opt.io import memory_limit
from horovod_opt.io.errors import InputError
from horovod_opt.io.index import Index
from horovod_opt.io.job.room import PART
from horovod_opt.io.kept.kept_place import check_disk_folder


class UnpackedPlace(NamedTuple):
    """`bytes` of each node, in its memory, or in a folder of it."""

    bytes: int = 0
    folder: Optional[str] = None

    @property
    def memory(self) -> int:
        """Bytes of it that are memory."""
        return 0 if self.folder else self.bytes


def check_unpacked_place(index: Index, folder: Union[str, os.PathLike, None],
                         memory: Optional[int]) -> UnpackedPlace:
    """For the files of an index that are compressed. Raises InputError where this node has no room
    for them: in `memory` bytes (None: half of what the process may use), or in the folder."""
    if folder is not None:
        folder = check_disk_folder("unpack_in", folder)
    if index.unpacked is None:
        return UnpackedPlace()
    unpacked = np.maximum(index.unpacked, 0)
    size, largest = int(unpacked.sum()), int(unpacked.argmax())
    what = (f"{index.root}: {int((index.unpacked >= 0).sum())} compressed files have "
            f"{memory_limit.show(size)} once they are unpacked, the largest, "
            f"{index.files[largest].name}, {memory_limit.show(int(unpacked[largest]))}")
    if folder is not None:
        status = os.statvfs(folder)
        free = status.f_bavail * status.f_frsize
        if free < size:
            raise InputError(f"{what}, but unpack_in={folder!r} has {memory_limit.show(free)} "
                             "free; remedy: another folder, or fewer files")
        return UnpackedPlace(size, folder)
    most, limit = memory, memory_limit.limit()
    if most is None and limit is not None:
        most = limit // PART
    if most is not None and size >= most:
        name = "memory=" if memory is not None else "by default memory="
        raise InputError(f"{what}, which {name}{memory_limit.show(most)} has no room for; remedy: "
                         "unpack_in= of open, a folder on a disk of each node, or more memory=, "
                         "or decompress them")
    return UnpackedPlace(size)
