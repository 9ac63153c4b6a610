"""How often each sample comes in an epoch, where some are wanted more often than others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from horovod_opt.io import formats
from horovod_opt.io.errors import InputError, tell
from horovod_opt.io.index.data_index import Index

# An epoch has at most so many times as many samples as there are: each takes some 40 bytes.
MOST_TIMES = 16


class Times(NamedTuple):
    """`counts` int64[n], how often each sample comes. `rare`: how many come less often than their
    weight says, never or once."""

    counts: np.ndarray
    rare: int


def times_of(weights: np.ndarray, seed: int, identity: bytes) -> Times:
    """Of n weights, float64[n], at least 0: in an epoch that is as short as can be with each sample
    in it, a sample comes in proportion to its weight, rounded up or down: of those before and with
    it as many as their weights say, to one (systematic sampling: Madow, Annals of Mathematical
    Statistics 20, 1949), from a start that `seed` and `identity` say."""
    some = weights > 0
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum()):
            weights = weights / weights.max()
    least = weights[some].min()
    with np.errstate(over="ignore", divide="ignore"):  # then the other is less
        total = min(weights.sum() / least, MOST_TIMES * some.sum())
    expected = weights * (total / weights.sum())
    expected = np.where(np.isclose(expected, np.round(expected), rtol=1e-12, atol=0),
                        np.round(expected), expected)
    digest = blake2b(f"{seed}".encode() + identity, digest_size=8, person=b"hvd-opt.weights")
    start = int.from_bytes(digest.digest(), "little") / 2**64
    counts = np.diff(np.floor(np.cumsum(expected) + start), prepend=np.floor(start))
    # Where sums are rounded, too.
    counts = np.maximum(counts, np.floor(expected)).astype(np.int64)
    return Times(counts, int((some & (expected < 1)).sum()))


def check_weights(answer: Any, samples: int) -> np.ndarray:
    """What a user's function returned, as float64[samples]. Raises InputError."""
    array = np.asarray(answer)
    if array.shape != (samples,) or array.dtype.kind not in "biuf":
        raise InputError(f"weights= returned {array.dtype}{list(array.shape)} for {samples} "
                         f"samples; remedy: float[{samples}]")
    weights = array.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise InputError(f"weights= returned {weights[bad[0]]} for sample {bad[0]}; remedy: finite "
                         "weights of at least 0")
    if not weights.any():
        raise InputError(f"weights= returned 0 for all {samples} samples; remedy: some that are "
                         "more")
    return weights


def check_shares(shares: Mapping[Any, Any]) -> dict[str, float]:
    """What each pattern is to have of an epoch. Raises InputError."""
    for pattern, share in shares.items():
        if not isinstance(pattern, (str, os.PathLike)) or isinstance(share, bool) or not isinstance(
                share, Real) or not 0 < share < float("inf"):
            raise InputError(f"{tell(pattern)}: {tell(share)} in the data sets to be mixed; "
                             "remedy: a path or glob, and a share above 0, such as {'a/*.tar': 7, "
                             "'b/*.tar': 3}")
    return {os.fspath(pattern): float(share) for pattern, share in shares.items()}


def weights_of_shares(index: Index, shares: Mapping[str, float]) -> np.ndarray:
    """Weights of the samples of an index, by which each pattern has its share: float64[n]. Raises
    InputError for a file that two have, and for patterns without samples."""
    numbers = {name: i for i, name in enumerate(index.files.names.strings())}
    owner = np.full(len(numbers), -1)
    patterns = list(shares)
    for number, pattern in enumerate(patterns):
        found = formats.find(pattern)
        for name in found.files:
            file = numbers.get(os.path.relpath(os.path.join(found.root, name), index.root))
            if file is None:
                raise InputError(f"{pattern}: {name} is not among the files of all patterns; "
                                 "remedy: start the job again, when nobody adds files")
            if owner[file] >= 0:
                raise InputError(f"{index.path(file)} is in {patterns[owner[file]]!r} and in "
                                 f"{pattern!r}; remedy: patterns that have no file in common")
            owner[file] = number
    of_sample = owner[index.file[:, 0]]
    counts = np.bincount(of_sample, minlength=len(patterns))
    if not counts.all():
        raise InputError(f"{patterns[int(counts.argmin())]}: none of its samples is chosen; "
                         "remedy: leave it out of what is mixed")
    return np.array([shares[pattern] for pattern in patterns])[of_sample] / counts[of_sample]


Weigh = Callable[[Any], Any]  # of a SampleTable


def rows_of(counts: np.ndarray) -> np.ndarray:
    """The samples, int64[counts.sum()], in rounds: each that comes once, then each that comes twice
    and so on, so that none is near itself; in each round in their order."""
    rounds: Sequence[np.ndarray] = [np.zeros(0, np.int64)]
    rows, before = np.flatnonzero(counts), 0
    for count in np.unique(counts[rows]).tolist():
        rows = rows[counts[rows] >= count]
        rounds.append(np.tile(rows, count - before))
        before = count
    return np.concatenate(rounds)
