"""Which file goes into which tar of a pack: a function of the listing alone, so that whoever is
interrupted goes on with the same bytes."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from horovod_opt.io.formats.tar import stem_of
from horovod_opt.io.order.permutation import Permutation, derive_key
from horovod_opt.io.pack.listing import Listing

BLOCK = 512  # bytes, of a tar
END = 2 * BLOCK  # zeros at the end of a tar
NAMED = "part-{:06d}.tar"
MOST_PARTS = 999_999


class Options(NamedTuple):
    """What the bytes of a pack depend on, beside the files. `part_bytes`: of contents and headers
    that a tar has at most, unless one sample alone has more. `level`: of zstd; None: as they are.
    """

    part_bytes: int
    seed: int = 0
    level: int | None = None


class Plan(NamedTuple):
    """`order`: numbers of files in the listing, int64[n], tar after tar; `ends`: tar k has those
    before ends[k]. `samples`: the first so many are samples. `labels`: of each in `order`, or -1.
    `identity`: of all that decides about the bytes; `identities`: the same of each tar."""

    order: np.ndarray
    ends: list[int]
    samples: int
    labels: np.ndarray
    classes: tuple[str, ...]
    identity: str
    identities: list[str]

    def rows(self, part: int) -> np.ndarray:
        """The files of a tar."""
        return self.order[self.ends[part - 1] if part else 0:self.ends[part]]


def plan(listing: Listing, options: Options) -> Plan:
    """Samples, which are files of one stem, are dealt by a keyed permutation, so that neighbours
    are of any class; what is no sample comes at the end."""
    classes = listing.classes()
    labels = listing.labels(classes)
    groups = _samples(listing, labels)
    key = derive_key(b"", options.seed, 0, "pack")
    at = Permutation(max(len(groups), 1), key).forward(np.arange(len(groups)))
    dealt = [groups[i] for i in np.argsort(at, kind="stable").tolist()]
    samples = sum(map(len, dealt))
    dealt += [[i] for i in np.flatnonzero(labels < 0).tolist()]
    order = np.array([i for group in dealt for i in group], np.int64)
    ends, rows, filled = [], 0, 0
    for group in dealt:
        room = sum(BLOCK + -(-listing.sizes[i] // BLOCK) * BLOCK for i in group)
        if filled and filled + room > options.part_bytes:
            ends.append(rows)
            filled = 0
        rows += len(group)
        filled += room
    ends.append(rows)
    identities = [_identity(listing, order[first:end], options, k)
                  for k, (first, end) in enumerate(zip([0, *ends], ends))]
    whole = json.dumps([identities, options, listing.folders, samples]).encode()
    return Plan(order, ends, samples, labels[order], classes,
                blake2b(whole, digest_size=16).hexdigest(), identities)


def _samples(listing: Listing, labels: np.ndarray) -> list[list[int]]:
    """Files of one stem, together; others, each by itself."""
    groups: dict[str, list[int]] = {}
    for i in np.flatnonzero(labels >= 0).tolist():
        groups.setdefault(stem_of(listing.paths[i])[0] or f"/{i}", []).append(i)
    return list(groups.values())


def _identity(listing: Listing, rows: np.ndarray, options: Options, part: int) -> str:
    files = [(listing.paths[i], listing.sizes[i], listing.mtimes_ns[i], listing.modes[i])
             for i in rows.tolist()]
    folders = listing.folders if part == 0 else []
    text = json.dumps([files, folders, options.level]).encode()
    return blake2b(text, digest_size=16).hexdigest()
