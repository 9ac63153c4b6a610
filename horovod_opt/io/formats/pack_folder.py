"""A folder that `horovod-opt pack` has made: tars, and an index of them that lies beside them."""

from __future__ import annotations

import os

from horovod_opt.io.errors import DataError

NAME = "pack.hoi"  # the index
TARS = "part-", ".tar"  # how names of its tars begin and end


def is_pack(folder: str) -> bool:
    """Whether a folder is one."""
    return os.path.isfile(os.path.join(folder, NAME))


def tars(folder: str) -> list[str]:
    """Names of the tars that are there."""
    return sorted(name for name in os.listdir(folder) if is_tar(name))


def is_tar(name: str) -> bool:
    """Whether a pack may have a tar of this name."""
    begin, end = TARS
    return name.startswith(begin) and name.endswith(end)


def refuse_build(folder: str) -> DataError:
    """Whoever would index it anew hears this."""
    return DataError(f"{os.path.join(folder, NAME)}: the index of a pack is made with it, and by "
                     "nothing else; remedy: copy it again from where it was made, or pack again")
