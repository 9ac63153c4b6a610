"""Records that can be told from each other and check themselves, so that a benchmark notices when a
pipeline loses, repeats or damages one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from horovod_opt.io.native import crc32c

NUMBER = struct.Struct("<Q")  # the record's, from 0 on
CHECKSUM = struct.Struct("<I")  # crc32c of all before it
LEAST_BYTES = NUMBER.size + CHECKSUM.size
BLOCK = 1000  # records whose random bytes are made at once


class WrongRecord(Exception):
    """A pipeline delivered what nobody wrote; the text says what."""


@dataclass(frozen=True)
class Records:
    """`count` records of `size` bytes each: number, random bytes of `seed`, checksum. `progress` is
    called with bytes made and in all, now and then."""

    count: int
    size: int
    seed: int = 0
    progress: Callable[[int, int], None] = field(default=lambda done, total: None, compare=False)

    def __iter__(self) -> Iterator[bytes]:
        random_bytes = self.size - LEAST_BYTES
        rng = np.random.default_rng(self.seed)
        for first in range(0, self.count, BLOCK):
            block = rng.bytes(BLOCK * random_bytes)
            self.progress(first * self.size, self.count * self.size)
            for number in range(first, min(first + BLOCK, self.count)):
                at = (number - first) * random_bytes
                data = NUMBER.pack(number) + block[at:at + random_bytes]
                yield data + CHECKSUM.pack(crc32c(data))

    def numbers(self, batch: Sequence[bytes]) -> list[int]:
        """Of these records. Raises WrongRecord where one is not as it was made."""
        return [self._number(record) for record in batch]

    def _number(self, record: bytes) -> int:
        if not isinstance(record, bytes) or len(record) != self.size:
            form = f"{len(record)} bytes" if isinstance(record, bytes) else type(record).__name__
            raise WrongRecord(f"a record of {self.size} bytes came as {form}")
        number, = NUMBER.unpack_from(record)
        if (number >= self.count or CHECKSUM.unpack_from(record, self.size - CHECKSUM.size)[0]
                != crc32c(record[:-CHECKSUM.size])):
            raise WrongRecord(f"a record that says it is number {number} of {self.count} has a "
                              "wrong checksum")
        return number
