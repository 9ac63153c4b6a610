"""The bytes of a file in memory, in blocks, so that a copy costs little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

BLOCK = 4096  # bytes


class Source:
    """A file of another file system, of which is read what was not written yet."""

    def __init__(self, path: Path):
        self._path = path
        self._file: Optional[int] = None

    def read(self, offset: int, size: int) -> bytes:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._file, size, offset)


class Content:
    """Blocks that were never written are those of the source, of which the first `_source_size`
    bytes count, and behind that zeros. Blocks are complete: behind the end they are zeros."""

    def __init__(self, source: Optional[Source] = None, size: int = 0):
        self.size = self._source_size = size
        self._source = source
        self._blocks: dict[int, bytes] = {}

    def copy(self) -> Content:
        same = Content(self._source)
        same.size, same._source_size = self.size, self._source_size
        same._blocks = dict(self._blocks)
        return same

    @property
    def block_count(self) -> int:
        """Blocks that were written."""
        return len(self._blocks)

    def count_new_blocks(self, offset: int, size: int) -> int:
        """Blocks that writing so many bytes there would add to those."""
        numbers = range(offset // BLOCK, -(-(offset + size) // BLOCK))
        return sum(number not in self._blocks for number in numbers)

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.size)
        if end <= offset:
            return b""
        first = offset // BLOCK
        read = b"".join(map(self._block, range(first, -(-end // BLOCK))))
        return read[offset - first * BLOCK:end - first * BLOCK]

    def write(self, offset: int, data: bytes) -> None:
        done = 0
        while done < len(data):
            number, start = divmod(offset + done, BLOCK)
            piece = data[done:done + BLOCK - start]
            done += len(piece)
            if len(piece) < BLOCK:
                old = self._block(number)
                piece = old[:start] + piece + old[start + len(piece):]
            self._blocks[number] = piece
        self.size = max(self.size, offset + len(data))

    def truncate(self, size: int) -> None:
        """To so many bytes, also to more."""
        if size < self.size:
            last, rest = divmod(size, BLOCK)
            self._source_size = min(self._source_size, size)
            self._blocks = {number: block for number, block in self._blocks.items()
                            if number < last + bool(rest)}
            if last in self._blocks:
                self._blocks[last] = _pad(self._blocks[last][:rest])
        self.size = size

    def _block(self, number: int) -> bytes:
        block = self._blocks.get(number)
        if block is not None:
            return block
        there = min(BLOCK, self._source_size - number * BLOCK)
        return _pad(self._source.read(number * BLOCK, there) if there > 0 else b"")


def _pad(block: bytes) -> bytes:
    return block + bytes(BLOCK - len(block))
