"""Where the bytes of a chunk are in its files, and where they come in a chunk buffer of the node
cache.

The reader reads by it and the ranks find their samples by it: it depends on the index alone.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np

# Bytes between two records that are read along: a request costs more than they do.
GAP = 64 * 1024
# The same of samples that other nodes take: all of these nodes would read them.
ALONG = 16 * 1024
AT_ONCE = 1 << 18  # samples that chunk_bytes() looks at
LOOKED_AT = 64  # chunks that estimate_chunk_bytes() does


class Extents(NamedTuple):
    """Pieces of files, by chunk: those of chunk i are number begin[i] to begin[i + 1] - 1.

    `begin` int64[chunks + 1]; `file` int32, `offset`, `length` and `place` int64, each [extents]:
    `length` bytes at `offset` of a file come to `place` of the chunk buffer. `bytes` int64[chunks]:
    what a chunk takes in its chunk buffer. """

    begin: np.ndarray
    file: np.ndarray
    offset: np.ndarray
    length: np.ndarray
    place: np.ndarray
    bytes: np.ndarray


def counts_of(chunks: np.ndarray, chunk_samples: int, samples: int) -> np.ndarray:
    """How many samples these chunks have, int64[k] each; `samples` is the data set's number."""
    first = chunks * chunk_samples
    return np.minimum(first + chunk_samples, samples) - first


def samples_of(chunks: np.ndarray, chunk_samples: int, samples: int
               ) -> tuple[np.ndarray, np.ndarray]:
    """The samples of these chunks one after the other, and for each the place of its chunk among
    them: two int64[n]. `samples` is the data set's number of samples."""
    count = counts_of(chunks, chunk_samples, samples)
    group = np.repeat(np.arange(len(chunks)), count)
    within = np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)
    return chunks[group] * chunk_samples + within, group


def extents_of(group: np.ndarray, groups: int, file: np.ndarray, offset: np.ndarray,
               size: np.ndarray, mask: Optional[np.ndarray] = None
               ) -> tuple[Extents, np.ndarray]:
    """The extents of `groups` chunks, and the place of each part in its chunk's chunk buffer:
    int64[n, P].

    Sample i of chunk `group[i]` has parts at `offset` of `file`, `size` bytes (each [n, P]). Parts
    are sorted by file and offset; what is at most GAP bytes apart is one extent; extents come one
    after the other.

    With `mask` (bool[n]) extents are of the samples that are, in the places where they would come
    with all of them; what is at most ALONG bytes apart is one.
    """
    parts = offset.shape[1]
    order = np.lexsort((offset.ravel(), file.ravel(), np.repeat(group, parts)))
    chunk = np.repeat(group, parts)[order]
    number, start = file.ravel()[order], offset.ravel()[order]
    end = start + size.ravel()[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = ((chunk[1:] != chunk[:-1]) | (number[1:] != number[:-1])
                  | (start[1:] - end[:-1] > GAP))
    heads = np.flatnonzero(is_new)
    length = np.maximum.reduceat(end, heads) - start[heads] if len(heads) else heads
    total = np.concatenate([[0], np.cumsum(length)])
    first = np.searchsorted(chunk[heads], np.arange(groups + 1))
    place = total[:-1] - total[first[chunk[heads]]]
    extent = np.cumsum(is_new) - 1
    places = np.empty(len(order), np.int64)
    places[order] = place[extent] + start - start[heads][extent]
    if mask is not None:
        rows = np.flatnonzero(np.repeat(mask, parts)[order] & (start < end))
        begin, behind = start[rows], end[rows]
        is_new = np.ones(len(rows), bool)
        is_new[1:] = (extent[rows][1:] != extent[rows][:-1]) | (begin[1:] - behind[:-1] > ALONG)
        inner = np.flatnonzero(is_new)
        heads = rows[inner]
        length = np.maximum.reduceat(behind, inner) - begin[inner] if len(inner) else inner
        place = places[order][heads]
    read = length > 0
    return Extents(
        begin=np.searchsorted(chunk[heads][read], np.arange(groups + 1)),
        file=np.ascontiguousarray(number[heads][read], np.int32), offset=start[heads][read],
        length=length[read], place=place[read], bytes=total[first[1:]] - total[first[:-1]],
    ), places.reshape(offset.shape)


def extents_of_chunks(index, chunk_samples: int, chunks: np.ndarray,
                      mask: Optional[np.ndarray] = None) -> tuple[Extents, np.ndarray]:
    """The same for these chunks of an index, sample after sample."""
    samples, group = samples_of(chunks, chunk_samples, len(index.offset))
    return extents_of(group, len(chunks), index.file[samples], index.offset[samples],
                      index.size[samples], mask)


class Checks(NamedTuple):
    """What the job's memory needs of chunks: whether their extents are all of them, uint8[chunks];
    and of which records they have the bytes, those of chunk i number begin[i] to begin[i + 1] - 1:
    `place` in the chunk buffer and `size`, int64[records], `crc` uint32[records]. `crc` None: the
    index has none."""

    are_whole: np.ndarray
    begin: np.ndarray
    place: np.ndarray
    size: np.ndarray
    crc: Optional[np.ndarray]


class Origins(NamedTuple):
    """Of extents that are records: which chunk each is of, int64[extents], and where it comes in
    the chunk's buffer, int64[extents]."""

    chunk: np.ndarray
    place: np.ndarray


def checks_of(index, chunk_samples: int, chunks: np.ndarray, places: np.ndarray,
              mask: Optional[np.ndarray] = None) -> Checks:
    """Of these chunks, whose parts extents_of_chunks() has put to `places`."""
    samples, group = samples_of(chunks, chunk_samples, len(index.offset))
    are_whole = np.ones(len(chunks), np.uint8)
    rows = np.ones(places.shape, bool) if mask is None else np.repeat(
        mask[:, np.newaxis], places.shape[1], axis=1)
    if mask is not None:
        are_whole[group[~mask]] = 0
    size = index.size[samples]
    rows &= size > 0
    counts = np.bincount(group, rows.sum(axis=1), len(chunks)).astype(np.int64)
    return Checks(are_whole, np.concatenate([[0], np.cumsum(counts)]), places[rows], size[rows],
                  None if index.crc is None else index.crc[samples][rows])


def bytes_read(index, chunk_samples: int, loads, chunk_bytes: np.ndarray) -> np.ndarray:
    """What is read for each of these loads (schedule.Loads), int64[k]; `chunk_bytes`: what all of
    each chunk takes, int64[chunks]."""
    read = chunk_bytes[loads.chunk]
    if loads.mask is None:
        return read
    counts = counts_of(loads.chunk, chunk_samples, len(index.offset))
    is_part = ~np.logical_and.reduceat(loads.mask, np.cumsum(counts) - counts)
    extents, _ = extents_of_chunks(index, chunk_samples, loads.chunk[is_part],
                                   loads.mask[np.repeat(is_part, counts)])
    total = np.concatenate([[0], np.cumsum(extents.length)])
    read[is_part] = np.diff(total[extents.begin])
    return read


def chunk_bytes(index, chunk_samples: int) -> np.ndarray:
    """What each chunk of the data set takes in memory: int64[chunks]."""
    chunks = -(-len(index.offset) // chunk_samples)
    at_once = max(AT_ONCE // chunk_samples, 1)
    pieces = [extents_of_chunks(index, chunk_samples,
                                np.arange(first, min(first + at_once, chunks)))[0].bytes
              for first in range(0, chunks, at_once)]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


def estimate_chunk_bytes(index, chunk_samples: int) -> np.ndarray:
    """About the same, without looking at all places: what the samples have, and as much beside it
    as in some chunks."""
    samples, parts = index.size.shape
    sizes = np.add.reduceat(index.size.reshape(-1), np.arange(0, samples * parts,
                                                              chunk_samples * parts))
    some = np.unique(np.linspace(0, len(sizes) - 1, LOOKED_AT).astype(np.int64))
    of_some = sizes[some].sum()
    taken = extents_of_chunks(index, chunk_samples, some)[0].bytes.sum()
    return np.ceil(sizes * (taken / of_some if of_some else 1)).astype(np.int64)
