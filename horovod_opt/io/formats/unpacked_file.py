"""The contents of a compressed file, forward: gzip, zlib (TFRecord's ZLIB) and zstd, told by its
first bytes."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator
from typing import Any, Optional

from horovod_opt.io.errors import DataError, TruncatedFile
from horovod_opt.io.formats import compression
from horovod_opt.io.formats.read_buffer import AGAIN_OR_PART, cannot_read
from horovod_opt.io.memory_limit import show
from horovod_opt.io.native import crc32c
from horovod_opt.io.progress import say

GZIP, ZLIB, ZSTD = "gzip", "zlib", "zstd"
READ = (GZIP, ZLIB, ZSTD)
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x04\x22\x4d\x18": "lz4"}
_WINDOW_BITS = {GZIP: 31, ZLIB: 15}  # of zlib's inflateInit2
HEAD = 12  # bytes that tell

FED = 1 << 16  # bytes of the file at a time
PIECE = 1 << 20  # bytes of contents at a time
# zstd has no such bound: 4 bytes are a block of up to 128 KiB.
FED_TO_ZSTD = 1 << 10
MOST_WINDOW = 1 << 27  # bytes that zstd may refer back, as its command line has it
FEW = 16 << 20  # bytes that any file may have, however well it is compressed
# Of its size it may have so many times that besides. gzip reaches 1,030, with nothing but zeros.
MOST_RATIO = 500


def kind_of(head: bytes) -> str:
    """How a file is compressed that begins so; "" if it is not. What begins a TFRecord may look
    like zlib, so ask for that first."""
    if head[:3] == b"\x1f\x8b\x08":
        return GZIP
    if head[:4] == b"\x28\xb5\x2f\xfd" or head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5:
        return ZSTD
    if len(head) > 1 and head[0] & 15 == 8 and head[0] >> 4 <= 7 and (
            head[0] << 8 | head[1]) % 31 == 0 and not head[1] & 32:
        return ZLIB
    return next((kind for begin, kind in _OTHERS.items() if head.startswith(begin)), "")


def most_bytes(packed: int) -> int:
    """Contents that a file of so many bytes may have; one with more is taken for a bomb."""
    return MOST_RATIO * packed + FEW


class UnpackedFile:
    """Of zlib and gzip members and of zstd frames that follow each other the contents are one after
    the other. What follows a gzip file and is no member is left out, with a line, as gzip and GNU
    tar do; zeros without one.

    Raises DataError where the file cannot be opened, for other kinds, and in reading for contents
    that are too large for the file; TruncatedFile where the compressed data ends or is damaged,
    once all before that has been read.
    """

    def __init__(self, path: str):
        self._path = path
        try:
            self._file = open(path, "rb", buffering=0)
            head = self._file.read(HEAD)
            self._size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise cannot_read(path, error) from error
        self.kind = kind_of(head)
        if self.kind not in READ:
            self._file.close()
            raise refuse_kind(path, self.kind)
        if self.kind == ZSTD:
            compression.require(f"{path}: a file that zstd has compressed")
        self._start()

    def _start(self) -> None:
        self._file.seek(0)
        self._pieces = self._expanded() if self.kind == ZSTD else self._inflated()
        self._piece, self._at, self._position = b"", 0, 0
        self._truncation: Optional[TruncatedFile] = None

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        """Forward by reading; backward from the start again, unless the place is held."""
        back = self._position - position
        if 0 < back <= self._at:
            self._at, self._position = self._at - back, position
        elif back > 0:
            self._start()
        while self._position < position and self.skip(position - self._position):
            pass

    def drain(self) -> tuple[int, str]:
        """Goes to the end. How many bytes the contents have, and what is wrong with a file that
        ends too early or is damaged: they are those before that."""
        try:
            while self.skip(PIECE):
                pass
        except TruncatedFile as error:
            return self._position, str(error)
        return self._position, ""

    def go_over(self, begin: int, size: int, checksum: bool) -> int:
        """Goes behind the `size` bytes from `begin` on; returns their crc32c, or 0. Raises
        TruncatedFile where they are not all there."""
        crc, end = 0, begin + size
        self.seek(begin if checksum else end)
        while checksum and (piece := self.read(min(PIECE, end - self._position))):
            crc = crc32c(piece, crc)
        if self._position < end:
            self.has_more()  # an error, where the compressed data is to blame
            raise TruncatedFile(f"{self._path}: truncated: its contents end at byte "
                                f"{self._position}, but a member goes on to byte {end}; "
                                f"{AGAIN_OR_PART}")
        return crc

    def read(self, size: int) -> bytes:
        """So many bytes, less only at the end, and where the compressed data ends or is damaged."""
        pieces = []
        while size and self._has_more_behind(pieces):
            piece = self._piece[self._at:self._at + size]
            pieces.append(piece)
            size -= len(piece)
            self._at += len(piece)
            self._position += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def skip(self, size: int) -> int:
        """Goes forward by at most so many bytes; returns by how many, 0 at the end."""
        if not self.has_more():
            return 0
        skipped = min(size, len(self._piece) - self._at)
        self._at += skipped
        self._position += skipped
        return skipped

    def _has_more_behind(self, pieces: list[bytes]) -> bool:
        """As has_more; an error waits until nobody would lose what comes before it."""
        try:
            return self.has_more()
        except TruncatedFile:
            if not pieces:
                raise
            return False

    def has_more(self) -> bool:
        """Whether there is a byte that comes next. Raises TruncatedFile where the compressed data
        ends or is damaged instead."""
        while self._at == len(self._piece):
            if self._truncation is not None:
                raise self._truncation
            try:
                piece = next(self._pieces, None)
            except TruncatedFile as error:
                self._truncation = error
                continue
            except OSError as error:
                refusal = cannot_read(self._path, error)
                if error.errno != errno.EIO:
                    raise refusal from error
                self._truncation = TruncatedFile(str(refusal))
                continue
            except Exception as error:  # of zlib and of zstandard
                self._truncation = self._end_early(f"its {self.kind} data is damaged ({error})")
                continue
            if piece is None:
                return False
            self._piece, self._at = piece, 0
            if self._position + len(piece) > most_bytes(self._size):
                raise DataError(
                    f"{self._path}: its {self.kind} data unpacks to more than {MOST_RATIO} times "
                    f"its {show(self._size)} and {show(FEW)}, so it is taken for a decompression "
                    "bomb; remedy: if it is data, write it uncompressed")
        return True

    def _end_early(self, why: str) -> TruncatedFile:
        return TruncatedFile(f"{self._path}: {why} behind byte {self._position} of its contents; "
                             f"{AGAIN_OR_PART}")

    def _inflated(self) -> Iterator[bytes]:
        rest = self._file.read(FED)
        while True:
            member = zlib.decompressobj(_WINDOW_BITS[self.kind])
            while not member.eof:
                data = member.unconsumed_tail or rest or self._file.read(FED)
                rest = b""
                before = member.copy()
                try:
                    piece = member.decompress(data, PIECE)
                except zlib.error:
                    yield from _until_damaged(before, data)
                    raise
                yield piece
                if not (data or piece or member.eof):
                    raise self._end_early(f"truncated: it ends within its {self.kind} data")
            rest = self._behind_zeros(member.unused_data)
            if len(rest) < 2:
                rest += self._file.read(FED)
            if not rest or self.kind == ZLIB or rest[:2] != b"\x1f\x8b":
                if rest:
                    say(f"{self._path}: what follows its {self.kind} data is left out")
                return

    def _behind_zeros(self, rest: bytes) -> bytes:
        while not (rest := rest.lstrip(b"\0")):
            if not (rest := self._file.read(FED)):
                return b""
        return rest

    def _expanded(self) -> Iterator[bytes]:
        import zstandard

        expander = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)
        rest = self._file.read(FED)
        while rest:
            frame = expander.decompressobj()
            while not frame.eof:
                rest = rest or self._file.read(FED)
                if not rest:
                    raise self._end_early("truncated: it ends within its zstd data")
                piece, rest = frame.decompress(rest[:FED_TO_ZSTD]), rest[FED_TO_ZSTD:]
                yield piece
            rest = (frame.unused_data + rest) or self._file.read(FED)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> UnpackedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _until_damaged(member: Any, data: bytes) -> Iterator[bytes]:
    """What is before the byte at which zlib finds damage: of more than a byte that it is given it
    has nothing then."""
    for at in range(len(data)):
        try:
            piece = member.decompress(data[at:at + 1])
        except zlib.error:
            return
        if piece:
            yield piece


def refuse_kind(path: str, kind: str) -> DataError:
    """Of a file that is compressed in another way, or not at all any more."""
    return DataError(f"{path}: {f'compressed by {kind}' if kind else 'not compressed'}, and not by "
                     f"{', '.join(READ)}; remedy: decompress it, or compress it by one of these")
