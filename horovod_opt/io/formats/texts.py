"""Many short texts in two arrays, which the ranks of a node can share by mapping one file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np


class Texts(Sequence):
    """Texts of bytes `blob` (uint8[bytes]); text i ends before `ends[i]` (int64[n])."""

    def __init__(self, blob: np.ndarray, ends: np.ndarray):
        self.blob = blob
        self.ends = ends

    @classmethod
    def of(cls, texts: Iterable[bytes]) -> Texts:
        kept = list(texts)
        lengths = np.fromiter(map(len, kept), np.int64, len(kept))
        return cls(np.frombuffer(b"".join(kept), np.uint8), np.cumsum(lengths))

    @classmethod
    def joined(cls, several: Sequence[Texts]) -> Texts:
        starts = np.cumsum([0] + [len(texts.blob) for texts in several])
        return cls(np.concatenate([texts.blob for texts in several]),
                   np.concatenate([texts.ends + start for texts, start in zip(several, starts)]))

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
        return list(self._decoded())

    def _decoded(self) -> Iterator[str]:
        whole, start = self.blob.tobytes(), 0
        for end in self.ends.tolist():
            yield whole[start:end].decode()
            start = end
