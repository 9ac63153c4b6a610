"""The samples and parts of an index that a training wants, and how often: `parts=`, `lacking=`,
`choose=` and `weights=` of open()."""

from __future__ import annotations

import fnmatch
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from horovod_opt.io.errors import DataError, InputError, require_one_of, tell
from horovod_opt.io.formats import TAR
from horovod_opt.io.formats.tar import differing_parts
from horovod_opt.io.index.data_index import DIGEST_BYTES, Index
from horovod_opt.io.index.weights import (
    Weigh,
    check_shares,
    check_weights,
    rows_of,
    times_of,
    weights_of_shares,
)

LACKING = ("raise", "skip", "keep")
KEYS_SHOWN = 3

Choose = Union[str, Sequence[str], Callable[["SampleTable"], Any]]


class _Keys(list):
    """Of samples; it knows which one was looked at last."""

    last: Optional[int] = None

    def __iter__(self) -> Iterator[str]:
        for self.last, key in enumerate(super().__iter__()):  # noqa: B020
            yield key

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, int):
            self.last = at % max(len(self), 1)
        return super().__getitem__(at)


class SampleTable:
    """What a function that chooses or weighs samples is given: all n of them, without their bytes.

    `parts`: names of the P parts, "jpg" and so on in a tar, one named "" in other formats. `size`:
    int64[n, P], bytes. `labels`: int32[n], or None, and `classes`, their names. `keys`: n texts,
    paths in a folder, keys in tar and LMDB, "" in TFRecord. `lacks`: bool[n, P], which samples of
    tars lack which part. `len(table)` is n.
    """

    def __init__(self, index: Index):
        self._index = index
        self.parts, self.size, self.classes = index.parts, index.size, index.classes
        self.labels = index.label

    def __len__(self) -> int:
        return self._index.samples

    @cached_property
    def keys(self) -> list[str]:
        return _Keys(self._index.key(number) for number in range(len(self)))

    @cached_property
    def lacks(self) -> np.ndarray:
        return lacks(self._index)

    def ask(self, name: str, function: Callable[[SampleTable], Any]) -> Any:
        """What a user's function, given to open() by this name, answers. Raises InputError for
        what it raises, with the sample of which it had the key last."""
        try:
            return function(self)
        except Exception as error:
            keys, seen = self.__dict__.get("keys"), ""
            if keys is not None and keys.last is not None:
                file = self._index.path(int(self._index.file[keys.last, 0]))
                seen = f", at sample {keys.last} {self._index.key(keys.last)!r} of {file}"
            # Where it is the user's: a frame of Python or NumPy, which it calls, says little.
            frames = traceback.extract_tb(error.__traceback__)[1:2]
            where = "".join(f" ({frame.filename}, line {frame.lineno})" for frame in frames)
            raise InputError(
                f"{name}=, your function {getattr(function, '__name__', type(function).__name__)}"
                f"{where}, raised {type(error).__name__}{seen}: {error}; it was given the table of "
                f"{len(self)} samples of {self._index.root}; remedy: correct it") from error


def lacks(index: Index, samples: Any = slice(None)) -> np.ndarray:
    """Which of these samples lack which part: bool[k, P]. Only those of tars do, where no file's
    contents begin at byte 0."""
    return (index.offset[samples] == 0) & (index.format == TAR)


@dataclass(frozen=True, eq=False)
class SelectedIndex(Index):
    """Some samples and parts (`columns`) of an index, as one of their own: each as often as
    `counts` says (of all, int64), in the order of `rows` (int64[n]). `is_partial`: some lack a
    part. `rare`: how many come less often than their weight says."""

    whole: Optional[Index] = None
    counts: Optional[np.ndarray] = None
    rows: Optional[np.ndarray] = None
    columns: tuple[int, ...] = ()
    is_partial: bool = False
    rare: int = 0

    def of(self, whole: Index) -> Index:
        """The same of another index of the same data."""
        return selected(whole, self.counts, self.columns)

    def key(self, sample: int) -> str:
        return self.whole.key(int(self.rows[sample]))

    def lacks(self, samples: np.ndarray) -> Optional[np.ndarray]:
        return lacks(self, samples) if self.is_partial else None

    def __reduce__(self) -> tuple:
        """Another process opens the whole index, so that all share its pages."""
        kind = np.min_scalar_type(int(self.counts.max()))
        return selected, (self.whole, self.counts.astype(kind), self.columns)


def selected(whole: Index, counts: np.ndarray, columns: Sequence[int], rare: int = 0
             ) -> SelectedIndex:
    """Each sample of an index so often (int64 of all), and its columns."""
    counts = np.asarray(counts, np.int64)
    rows = rows_of(counts)
    cells = np.ix_(rows, columns)
    state = blake2b(digest_size=DIGEST_BYTES, person=b"horovod-opt.rows")
    state.update(whole.digest + np.ascontiguousarray(rows, "<i8").tobytes())
    is_all = bool((counts == 1).all())
    own = {field.name: getattr(whole, field.name) for field in fields(Index)}
    own |= {"parts": tuple(whole.parts[column] for column in columns),
            "file": np.broadcast_to(whole.file[rows, :1], (len(rows), len(columns))),
            "offset": whole.offset[cells], "size": whole.size[cells],
            "crc": None if whole.crc is None else whole.crc[cells],
            "label": None if whole.label is None else whole.label[rows],
            "raw_size": None if whole.raw_size is None else whole.raw_size[cells],
            "keys": None,  # see key()
            "unpacked": _needed(whole, rows),
            "digest": whole.digest if is_all else state.digest(),
            "fingerprint": f"{whole.fingerprint}-{state.hexdigest()}-{list(columns)}"}
    return SelectedIndex(**own, whole=whole, counts=counts, rows=rows, columns=tuple(columns),
                         is_partial=bool(lacks(whole)[cells].any()), rare=rare)


def _needed(whole: Index, rows: np.ndarray) -> Optional[np.ndarray]:
    """Index.unpacked, where nothing is unpacked of files that have none of these samples."""
    if whole.unpacked is None:
        return None
    is_used = np.zeros(len(whole.files), bool)
    is_used[whole.file[rows, 0]] = True
    return np.where(is_used, whole.unpacked, np.minimum(whole.unpacked, 0))


class Selection(NamedTuple):
    """What open() was given. `parts` None: all that there are. `shares`: what each pattern is to
    have of an epoch. Raises InputError in check() if it is none."""

    parts: Optional[tuple[str, ...]] = None
    lacking: str = "raise"
    choose: Optional[Choose] = None
    weights: Optional[Weigh] = None
    shares: Optional[dict[str, float]] = None

    @classmethod
    def check(cls, parts: Any, lacking: Any, choose: Any, weights: Any = None,
              shares: Optional[Mapping[Any, Any]] = None) -> Selection:
        if parts is not None:
            parts = _several(parts)
            if not parts or len(set(parts)) < len(parts) or not all(
                    isinstance(part, str) for part in parts):
                raise InputError(f"parts={tell(parts)}; remedy: names such as ('jpg', 'cls')")
        require_one_of("lacking", lacking, LACKING)
        if choose is not None and not callable(choose):
            given, choose = choose, _several(choose)
            if not choose or not all(isinstance(text, str) and text.strip("!") for text in choose):
                raise InputError(f"choose={tell(given)}; remedy: patterns of keys such as '*.jpg' "
                                 "or '!__*__', or a function")
        if weights is not None and not callable(weights):
            raise InputError(f"weights={tell(weights)}; remedy: a function that is given a "
                             "SampleTable and returns a weight for each sample")
        if weights is not None and shares is not None:
            raise InputError("weights= and a share of each pattern; remedy: one of them")
        return cls(parts, lacking, choose, weights,
                   None if shares is None else check_shares(shares))

    def apply(self, index: Index, seed: int = 0) -> Index:
        """The index itself where all of it is wanted, once. `seed`: of what weights leave open.
        Raises InputError for what it has not got and for weights that are none, DataError where
        samples lack parts, and where none is left."""
        chosen = self._apply_choice(index)
        if self.weights is None and self.shares is None:
            return chosen
        weights = (weights_of_shares(chosen, self.shares) if self.weights is None else
                   check_weights(SampleTable(chosen).ask("weights", self.weights),
                                 chosen.samples))
        times = times_of(weights, seed, chosen.digest)
        if (times.counts == 1).all():
            return chosen
        rows, columns = np.arange(index.samples), range(len(index.parts))
        if isinstance(chosen, SelectedIndex):
            rows, columns = chosen.rows, chosen.columns
        counts = np.zeros(index.samples, np.int64)
        counts[rows] = times.counts
        return selected(index, counts, list(columns), times.rare)

    def _apply_choice(self, index: Index) -> Index:
        mask = self._chosen(index)
        columns = self._columns(index)
        missing = lacks(index)[:, columns]
        if self.parts is None and missing.any():  # parts that none of the chosen has are no parts
            is_had = ~missing[mask].all(axis=0)
            columns, missing = np.asarray(columns)[is_had].tolist(), missing[:, is_had]
        if missing.any():
            mask = self._without_lacking(index, mask, columns, missing)
        rows = np.flatnonzero(mask)
        if not len(rows):
            raise DataError(
                f"{index.root}: choose= and parts= leave none of {index.samples} samples, as "
                f"{', '.join(repr(index.key(i)) for i in range(min(index.samples, KEYS_SHOWN)))}; "
                "remedy: a choice that has some; a pattern is compared with a whole key, so an "
                "extension is '*.jpg'")
        if len(rows) == index.samples and columns == list(range(len(index.parts))) and (
                not missing.any()):
            return index
        return selected(index, mask, columns)

    def _columns(self, index: Index) -> list[int]:
        if self.parts is None:
            return list(range(len(index.parts)))
        for part in self.parts:
            if index.format != TAR or part not in index.parts:
                raise InputError(
                    f"parts={tell(list(self.parts))}: samples have no part {tell(part)}, "
                    + (f"but {', '.join(index.parts)}" if index.format == TAR else
                       f"nor any other: only those of tars have parts, and this is {index.format}")
                    + "; remedy: parts that there are, or none")
        return [index.parts.index(part) for part in self.parts]

    def _without_lacking(self, index: Index, mask: np.ndarray, columns: Sequence[int],
                         missing: np.ndarray) -> np.ndarray:
        bad = mask & missing.any(axis=1)
        if self.lacking == "skip":
            return mask & ~bad
        if self.lacking == "raise" and bad.any():
            first = np.flatnonzero(mask & (missing == missing[bad][0]).all(axis=1))[0]
            others = np.flatnonzero(mask & (missing != missing[first]).any(axis=1))

            def of(row: int) -> tuple[str, str, list[str]]:
                return (index.path(int(index.file[row, 0])), index.key(row),
                        [index.parts[column] for column, is_missing in zip(columns, missing[row])
                         if not is_missing])

            if not len(others):
                raise DataError(f"no sample has the parts {[index.parts[c] for c in columns]}, as "
                                f"{index.key(int(first))!r}; remedy: parts that there are")
            raise differing_parts(*map(of, sorted((int(first), int(others[0])))))
        if self.lacking == "keep" and len(columns) == 1 and bad.any():
            raise InputError(f"lacking='keep' with the one part {index.parts[columns[0]]!r}, of "
                             f"which sample {index.key(int(np.flatnonzero(bad)[0]))!r} would have "
                             "nothing; remedy: lacking='skip'")
        return mask

    def _chosen(self, index: Index) -> np.ndarray:
        if self.choose is None:
            return np.ones(index.samples, bool)
        if callable(self.choose):
            return _mask_of(SampleTable(index).ask("choose", self.choose), index.samples)
        wanted, unwanted = (_matcher([text.lstrip("!") for text in self.choose
                                      if text.startswith("!") == is_left_out])
                            for is_left_out in (False, True))
        return np.fromiter(((wanted is None or wanted(key) is not None)
                            and (unwanted is None or unwanted(key) is None)
                            for key in map(index.key, range(index.samples))), bool, index.samples)


def _several(given: Any) -> tuple:
    """One text, or several; what is neither is for a check to refuse."""
    is_one = isinstance(given, (str, bytes)) or not isinstance(given, Iterable)
    return (given,) if is_one else tuple(given)


def _matcher(patterns: Sequence[str]) -> Optional[Callable[[str], Optional[re.Match]]]:
    """Of any of these patterns; None: there are none."""
    return re.compile("|".join(map(fnmatch.translate, patterns))).match if patterns else None


def _mask_of(answer: Any, samples: int) -> np.ndarray:
    """What a user's function returned: bool[samples], or numbers of samples."""
    array = np.asarray(answer)
    if array.dtype == bool and array.shape == (samples,):
        return array
    if array.dtype.kind in "iu" and array.ndim == 1 and (
            (0 <= array) & (array < samples)).all() and len(np.unique(array)) == len(array):
        mask = np.zeros(samples, bool)
        mask[array] = True
        return mask
    raise InputError(f"choose= returned {array.dtype}{list(array.shape)} for {samples} samples; "
                     f"remedy: bool[{samples}], or the numbers of the samples that it chooses, "
                     "each once")
