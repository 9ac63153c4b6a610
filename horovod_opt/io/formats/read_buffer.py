"""Reads a file forward in blocks: each byte once, however short the pieces that are asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from horovod_opt.io.errors import DataError, TruncatedFile
from horovod_opt.io.native import crc32c

if TYPE_CHECKING:
    from horovod_opt.io.formats.unpacked_file import UnpackedFile

BLOCK = 4 << 20  # bytes
AGAIN_OR_PART = ("remedy: copy or make the file again, or take the samples before this, by "
                 "bad='skip' of open")


def with_nothing_before(error: TruncatedFile) -> TruncatedFile:
    """The same, where bad='skip' has been given and no sample is whole."""
    return TruncatedFile(str(error).replace(
        AGAIN_OR_PART, "no sample is before that; remedy: copy or make the file again, or leave it "
        "out of the pattern"))


class ReadBuffer:
    """A file of which a block is held, and nothing read from byte `end` on. `contents`: of a
    compressed one, which are read instead, whatever their end.

    Raises DataError where the file cannot be opened.
    """

    def __init__(self, path: str, end: int, block: int = BLOCK,
                 contents: UnpackedFile | None = None):
        self._path = path
        self._end = end
        self._block = block
        self._start = 0
        self._bytes = b""
        self._contents = contents
        if contents is not None:
            return
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise cannot_read(path, error) from error

    def has(self, offset: int) -> bool:
        """Whether a byte is there. Raises TruncatedFile where compressed data ends within."""
        if self._contents is None:
            return offset < self._end
        if not 0 <= offset - self._start < len(self._bytes):
            self._bytes, self._start = self._read(offset, offset + self._block), offset
        return bool(self._bytes) or self._contents.has_more()

    def take(self, offset: int, length: int) -> bytes:
        """The bytes there, at most a block. Raises DataError if the file ends before, or on EIO."""
        at = offset - self._start
        if not 0 <= at <= len(self._bytes) - length:
            tail = self._bytes[at:] if 0 <= at < len(self._bytes) else b""
            block_end = offset + max(length, self._block)
            if self._contents is None:
                block_end = min(block_end, self._end)
            self._bytes = tail + self._read(offset + len(tail), block_end)
            self._start, at = offset, 0
            if len(self._bytes) < length:
                if self._contents is not None:
                    self._contents.has_more()  # an error, where the compressed data is to blame
                raise TruncatedFile(f"{self._path}: truncated: the file ends at byte "
                                    f"{offset + len(self._bytes)}, but a record goes on to byte "
                                    f"{offset + length}; {AGAIN_OR_PART}")
        return self._bytes[at:at + length]

    def crc32c(self, offset: int, length: int) -> int:
        """Checksum of the bytes there, of any length. Raises DataError as `take` does."""
        crc = 0
        while length:
            piece = self.take(offset, min(length, self._block))
            crc = crc32c(piece, crc)
            offset += len(piece)
            length -= len(piece)
        return crc

    def _read(self, offset: int, end: int) -> bytes:
        if self._contents is not None:
            self._contents.seek(offset)
            return self._contents.read(end - offset)
        pieces = []
        try:
            while offset < end:
                piece = os.pread(self._file, end - offset, offset)
                if not piece:
                    break
                pieces.append(piece)
                offset += len(piece)
        except OSError as error:
            raise cannot_read(self._path, error, offset) from error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        if self._contents is None:
            os.close(self._file)

    def __enter__(self) -> ReadBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def cannot_read(path: str, error: OSError, offset: int | None = None) -> DataError:
    """Says which file, where, why, and whom it was refused to."""
    where = "" if offset is None else f" at byte {offset}"
    user = f" for user id {os.geteuid()}" if isinstance(error, PermissionError) else ""
    return DataError(f"{path}: cannot be read{where}{user}: {error.strerror}; remedy: make it "
                     "readable for the job, or leave it out of the pattern")
