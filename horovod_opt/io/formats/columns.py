"""What is known of many samples, in columns: where they are in a file, and texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np


class Texts(Sequence):
    """Many short texts in two arrays, which the ranks of a node can share by mapping one file:
    bytes `blob` (uint8[bytes]), where text i ends before `ends[i]` (int64[n])."""

    def __init__(self, blob: np.ndarray, ends: np.ndarray):
        self.blob = blob
        self.ends = ends

    @classmethod
    def of(cls, texts: Iterable[bytes]) -> Texts:
        items = list(texts)
        lengths = np.fromiter(map(len, items), np.int64, len(items))
        return cls(np.frombuffer(b"".join(items), np.uint8), np.cumsum(lengths))

    @classmethod
    def concatenate(cls, parts: Sequence[Texts]) -> Texts:
        starts = np.cumsum([0] + [len(texts.blob) for texts in parts])
        return cls(np.concatenate([texts.blob for texts in parts]),
                   np.concatenate([texts.ends + start for texts, start in zip(parts, starts)]))

    def raw(self, i: int) -> bytes:
        """The bytes of text i. Raises IndexError outside of 0 <= i < len(self)."""
        if not 0 <= i < len(self.ends):
            raise IndexError(f"text {i} of {len(self.ends)}")
        start = self.ends[i - 1] if i else 0
        return self.blob[start:self.ends[i]].tobytes()

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, i: int) -> str:
        """Text i; what is no printable UTF-8 comes as hexadecimal digits."""
        raw = self.raw(i)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return raw.hex()
        return text if text.isprintable() else raw.hex()

    def strings(self) -> list[str]:
        """All texts, decoded. Raises UnicodeDecodeError where one is not UTF-8."""
        return list(self._decode())

    def _decode(self) -> Iterator[str]:
        data, start = self.blob.tobytes(), 0
        for end in self.ends.tolist():
            yield data[start:end].decode()
            start = end


@dataclass(frozen=True)
class Scan:
    """The n samples of one file, in the file's order, not their bytes; P parts make a sample.

    `offset` and `size` are int64[n, P], in bytes, both 0 for a part that a sample lacks; `crc` is
    the crc32c of each part, uint32[n, P], or None where the file does not hold it. `keys` is None
    where samples have none of their own. `damages` describes records that do not match the
    checksum that the file holds for them.
    `truncation` is what is wrong with a file of which only the first samples can be found.
    """

    parts: tuple[str, ...]
    offset: np.ndarray
    size: np.ndarray
    crc: np.ndarray | None = None
    keys: Texts | None = None
    damages: list[str] = field(default_factory=list)
    truncation: str = ""

    def with_parts(self, parts: tuple[str, ...]) -> Scan:
        """The same samples, which lack those of these parts that they have not got."""
        if parts == self.parts:
            return self
        places = [parts.index(part) for part in self.parts]

        def spread(column: np.ndarray) -> np.ndarray:
            wider = np.zeros((len(column), len(parts)), column.dtype)
            wider[:, places] = column
            return wider

        return replace(self, parts=parts, offset=spread(self.offset), size=spread(self.size),
                       crc=None if self.crc is None else spread(self.crc))
