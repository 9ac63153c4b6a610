"""What a data set of the input side's trials holds, and what comes in each of its epochs, by the
pages of docs/use alone: nothing here asks horovod_opt."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from math import ceil, floor
from pathlib import Path
from typing import NamedTuple, Optional

import zstandard
from data_sets import tar, tfrecord

TFRECORD, TAR = FORMATS = "tfrecord", "tar"
PACKINGS = {TFRECORD: {"": bytes, "gzip": gzip.compress, "zlib": zlib.compress},
            TAR: {"": bytes, "gzip": gzip.compress,
                  "zstd": lambda data: zstandard.ZstdCompressor().compress(data)}}
RECORD, LABEL = "bin", "cls"  # of tars
SMALL = 1e-9


class DataSet(NamedTuple):
    """`samples` in two files of a format, `first` of them in the first one; packed as PACKINGS
    says. Of tars those in `lacks` have no LABEL, and `lacking` is what becomes of them; `parts` are
    asked for, if any. `chosen` are these numbers (None: all), said by `choose`: patterns of keys,
    or "bool" or "numbers", what a function returns. `weights` are of all samples; with `shares`
    files are mixed."""

    format: str
    packed: str
    samples: int
    first: int
    lacks: Sequence[int] = ()
    lacking: str = "raise"
    parts: Optional[Sequence[str]] = None
    choose: str | Sequence[str] = ""
    chosen: Optional[Sequence[int]] = None
    weights: Optional[Sequence[int]] = None
    shares: Optional[Sequence[int]] = None

    def describe(self) -> str:
        words = [str(self.samples), self.packed, self.format, "samples", "weighted" * bool(
            self.weights), f"mixed {self.shares}" * bool(self.shares),
            f"{self.lacking} {len(self.lacks)} lacking" * bool(self.lacks),
            f"parts {self.parts}" * bool(self.parts), f"choose {self.choose}" * bool(self.choose)]
        return " ".join(word for word in words if word)

    def paths(self, folder: Path) -> list[Path]:
        return [folder / f"{name}.{self.format}" for name in "ab"]

    def open_options(self, folder: Path) -> dict:
        """Arguments of hio.open."""
        paths, taken = list(map(str, self.paths(folder))), self.taken()
        options: dict = {"pattern": dict(zip(paths, self.shares)) if self.shares else paths}
        if self.lacks:
            options["lacking"] = self.lacking
        if self.parts:
            options["parts"] = self.parts
        if self.choose == "bool":
            chosen = {*self.chosen}
            options["choose"] = lambda table: [number in chosen for number in range(len(table))]
        elif self.choose == "numbers":
            options["choose"] = lambda table: self.chosen
        elif self.choose:
            options["choose"] = self.choose
        if self.weights:
            options["weights"] = lambda table: [self.weights[number] for number in taken]
        return options

    def check(self, number: int, name: str, parts: Mapping[str, bytes]) -> None:
        """That a sample, which says that it has this number and key, is what was stored."""
        if name != key(number) * (self.format == TAR):
            raise AssertionError(f"sample {number} is {name!r}")
        self.check_parts(number, parts)

    def check_parts(self, number: int, parts: Mapping[str, bytes]) -> None:
        stored = self.stored(number)
        if parts != {part: stored[part] for part in self.parts or stored}:
            raise AssertionError(f"sample {number} is {parts}")

    def write(self, folder: Path) -> None:
        numbers = range(self.samples)
        for path, part in zip(self.paths(folder), (numbers[:self.first], numbers[self.first:])):
            if self.format == TAR:
                tar(path, [(f"{key(number)}.{name}", data) for number in part
                           for name, data in self.stored(number).items()])
            else:
                tfrecord(path, map(record, part))
            path.write_bytes(PACKINGS[self.format][self.packed](path.read_bytes()))

    def stored(self, number: int) -> dict[str, bytes]:
        """Parts of a sample."""
        parts = {RECORD: record(number)}
        has_label = self.format == TAR and number not in self.lacks
        return {**parts, LABEL: b"%d" % (number % 10)} if has_label else parts

    def taken(self) -> list[int]:
        """The samples that come at all, in the data's order; some have the weight 0."""
        taken = list(range(self.samples)) if self.chosen is None else sorted(self.chosen)
        if self.lacking == "skip" and self.parts is None:
            taken = [number for number in taken if number not in self.lacks]
        return taken

    @property
    def has_both_files(self) -> bool:
        taken = self.taken()
        return taken[0] < self.first <= taken[-1]

    def expected(self) -> dict[int, float]:
        """How often each sample comes in an epoch, rounded up or down. It is as short as can be
        with each in it; of weights that of the least comes once; files have their shares, and in
        each all come alike."""
        taken = self.taken()
        if self.shares is None:
            weights = self.weights or [1] * self.samples
            least = min(weights[number] for number in taken if weights[number])
            return {number: weights[number] / least for number in taken if weights[number]}
        of_each = [share / len(file) for share, file in zip(self.shares, self._files())]
        return {number: times / min(of_each)
                for times, file in zip(of_each, self._files()) for number in file}

    def _files(self) -> list[list[int]]:
        return [[number for number in self.taken() if (number >= self.first) == is_second]
                for is_second in (False, True)]

    def wrong_counts(self, had: Counter[int]) -> list[str]:
        """What an epoch has lost or had too often, of these samples."""
        expected, problems = self.expected(), []
        lost = [number for number, times in expected.items() if had[number] < floor(times + SMALL)]
        often = [number for number, count in had.items()
                 if count > ceil(expected.get(number, 0) - SMALL)]
        problems += [f"lost or too seldom: {sorted(lost)[:20]}"] * bool(lost)
        problems += [f"too often: {sorted(often)[:20]}"] * bool(often)
        for name, file in zip("ab", self._files() if self.shares else ()):
            got, wanted = (sum(counts.get(number, 0) for number in file)
                           for counts in (had, expected))
            if abs(got - wanted) >= 1 + SMALL:
                problems.append(f"file {name} has {got} samples of an epoch, not {wanted:.2f}")
        return problems


def rows(had: Counter[int]) -> list[int]:
    """The samples of an epoch by their numbers in it: all once, then those that come twice, ..."""
    return [number for times in range(max(had.values(), default=0))
            for number in sorted(had) if had[number] > times]


def record(number: int) -> bytes:
    return number.to_bytes(4, "little") + bytes(number % 50)


def key(number: int) -> str:
    return f"s{number:04d}"


def keys_chosen(patterns: Sequence[str], samples: int) -> list[int]:
    """By patterns of which those with "!" say what is left out."""
    def is_one(number: int, texts: list[str]) -> bool:
        return any(fnmatchcase(key(number), text) for text in texts)

    wanted = [text for text in patterns if text[0] != "!"]
    unwanted = [text[1:] for text in patterns if text[0] == "!"]
    return [number for number in range(samples) if is_one(number, wanted or ["*"])
            and not is_one(number, unwanted)]
