"""A file system in a file, with the content of a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from horovod_lab.io.testbeds.requirements import call

BLOCK = 4096
INODE = 256
SPARE = 8 << 20  # bytes, for what the file system says of itself


def image_of(folder: Path) -> Path:
    """Beside the folder; made if it is not there, or older than the content. Raises OSError."""
    image = folder.with_name(folder.name + ".ext4")
    statuses = [path.lstat() for path in (folder, *folder.rglob("*"))]
    newest = max(one.st_mtime_ns for one in statuses)
    if not image.exists() or image.stat().st_mtime_ns <= newest:
        unfinished = image.with_name(image.name + ".unfinished")
        _make(folder, unfinished, statuses)
        unfinished.replace(image)
    return image


def _make(folder: Path, image: Path, statuses: Sequence[os.stat_result]) -> None:
    """Sparse, and without a journal: it is only read."""
    blocks = sum(-(-one.st_size // BLOCK) + 1 for one in statuses)
    inodes = len(statuses) + 64
    size = blocks * BLOCK * 21 // 20 + inodes * INODE + SPARE
    with image.open("wb") as file:
        file.truncate(size - size % BLOCK)
    call(["mkfs.ext4", "-q", "-F", "-b", BLOCK, "-I", INODE, "-N", inodes, "-m", 0,
          "-O", "^has_journal", "-d", folder, image])
    call(["debugfs", "-w", "-R", "rmdir lost+found", image])  # which the folder does not have
