"""What `cache=` and `cache_in=` ask for, and whether this node has it."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Optional, Union

from horovod_opt.io import memory_limit
from horovod_opt.io.errors import InputError

# Kinds of file systems that other machines have: what is kept there is read from storage again.
_NETWORKS = re.compile(r"nfs|cifs|smb|lustre|fuse|ceph|gpfs|beegfs|9p|afs|gfs|ocfs|glusterfs|"
                       r"panfs|orangefs|pvfs|wekafs|virtiofs")


class KeptPlace(NamedTuple):
    """`bytes` of each node, in its memory, or in a folder of it."""

    bytes: int
    folder: Optional[str] = None

    @property
    def memory(self) -> int:
        """Bytes of it that are memory."""
        return 0 if self.folder else self.bytes


def check_kept_place(cache: Union[int, str, None], folder: Union[str, os.PathLike, None]
                     ) -> Optional[KeptPlace]:
    """None: nothing is kept. Raises InputError for what this node cannot have."""
    if cache is None:
        if folder is not None:
            raise InputError(f"cache_in={os.fspath(folder)!r} without cache=; remedy: cache= says "
                             "how much of it to use, such as \"100GiB\"")
        return None
    size = memory_limit.parse(cache, "cache")
    if folder is None:
        most = memory_limit.limit()
        if most is not None and size > most:
            raise InputError(
                f"cache={memory_limit.show(size)}, but this process may use "
                f"{memory_limit.show(most)} (control group or machine); remedy: a smaller cache=, "
                "a higher limit, or cache_in= with a folder on a disk of the node")
        return KeptPlace(size)
    path = check_disk_folder("cache_in", folder)
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize
    if free < size:
        raise InputError(f"cache={memory_limit.show(size)}, but cache_in={path!r} has "
                         f"{memory_limit.show(free)} free; remedy: a smaller cache=, or another "
                         "folder")
    return KeptPlace(size, path)


def check_disk_folder(name: str, folder: Union[str, os.PathLike]) -> str:
    """Its absolute path. Raises InputError about the argument `name` for what is no folder of a
    disk of this node that takes files without a name."""
    path = os.path.abspath(os.fspath(folder))
    where = f"{name}={path!r}"
    if not os.path.isdir(path):
        raise InputError(f"{where} is no folder on this node; remedy: one that is there on every "
                         "node, on a disk of its own")
    kind = file_system(path)
    if kind and _NETWORKS.search(kind):
        raise InputError(f"{where} is on {kind}, which is no disk of this node; remedy: a folder "
                         f"on a local disk, or leave {name} out")
    try:
        os.close(os.open(path, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        has_none = error.errno in (errno.EOPNOTSUPP, errno.EISDIR)
        reason = f"{kind} has no files without a name" if has_none else error.strerror
        raise InputError(f"{where} cannot be used: {reason}; remedy: a folder on ext4, XFS, Btrfs "
                         "or tmpfs that this user may write to") from None
    return path


def file_system(path: str) -> str:
    """The kind of what is mounted there, such as "ext4"; "" where /proc does not say."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            fields = line.split(" ")
            if fields[2] == number:
                return fields[fields.index("-") + 1]
    return ""
