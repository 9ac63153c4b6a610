"""B4: which version to go on with. All ranks take the same, and only what is as it was saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Optional

from horovod_opt.io.checkpoints import manifest as manifests
from horovod_opt.io.checkpoints.tier import Tier
from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.job.communication import Communication
from horovod_opt.io.progress import say


def newest(tiers: Sequence[Tier], ranks: Communication) -> Optional[tuple[int, Path]]:
    """Its number, and the folder of this rank's part. Raises InputError: another number of ranks
    has saved it."""
    sizes = {step: size for step, size in _sizes(tiers).items()
             if ranks.rank in _ranks(tiers, step)}
    everywhere, elsewhere = _compare(ranks, sizes)
    for step in elsewhere:
        if not everywhere or step > max(everywhere):
            _say(ranks, f"version {step} is left out: not all ranks find their part of it; remedy, "
                 "if it is in the fast tier of another node: horovod-opt io drain there")
    for step in sorted(everywhere, reverse=True):
        if everywhere[step] != ranks.size:
            raise InputError(
                f"version {step} was saved by {everywhere[step]} ranks, and {ranks.size} restore it"
                "; remedy: that number of ranks, or restore_parts(), if the saver can read them")
        paths = _checked(tiers, step, [ranks.rank])
        if _all(ranks, paths is not None):
            return step, paths[0]
        _say(ranks, f"version {step} is not what was saved: an older one is taken")
    return None


def newest_of_all_parts(tiers: Sequence[Tier], ranks: Communication
                        ) -> Optional[tuple[int, list[Path]]]:
    """Its number, and the folders of all parts, by rank. Ranks share the work of checking them."""
    sizes = {step: size for step, size in _sizes(tiers).items()
             if _ranks(tiers, step) >= set(range(size))}
    everywhere, _ = _compare(ranks, sizes)
    for step in sorted(everywhere, reverse=True):
        parts = range(everywhere[step])
        paths = _checked(tiers, step, parts, lambda part: part % ranks.size == ranks.rank)
        if _all(ranks, paths is not None):
            return step, paths
        _say(ranks, f"version {step} is not what was saved: an older one is taken")
    return None


def _sizes(tiers: Sequence[Tier]) -> dict[int, int]:
    """By step: of how many ranks the version is, as its parts here say."""
    sizes = {}
    for tier in tiers:
        for step in tier.steps():
            for rank in tier.ranks(step):
                try:
                    sizes[step] = tier.manifest(step, rank).ranks
                    break
                except DataError as error:
                    say(str(error))
    return sizes


def _ranks(tiers: Sequence[Tier], step: int) -> set[int]:
    return {rank for tier in tiers for rank in tier.ranks(step)}


def _compare(ranks: Communication, sizes: dict[int, int]) -> tuple[dict[int, int], list[int]]:
    """What all ranks have said, and the steps that only some have."""
    rows = [dict(json.loads(row)) for row in
            ranks.allgather(json.dumps(list(sizes.items())).encode())]
    everywhere = {step: size for step, size in rows[0].items()
                  if all(row.get(step) == size for row in rows)}
    return everywhere, sorted({step for row in rows for step in row} - set(everywhere))


def _checked(tiers: Sequence[Tier], step: int, parts: Iterable[int],
             is_mine: Callable[[int], bool] = lambda part: True) -> Optional[list[Path]]:
    """Of each part, the first tier's folder that is as it was saved; None: a part has none."""
    paths = []
    for part in parts:
        for tier in tiers:
            path = tier.path(step, part)
            if not path.exists():
                continue
            try:
                manifest = tier.manifest(step, part)
                if is_mine(part):
                    manifests.check(path, manifest)
                paths.append(path)
                break
            except DataError as error:
                say(str(error))
        else:
            return None
    return paths


def _all(ranks: Communication, is_good: bool) -> bool:
    return set(ranks.allgather(b"1" if is_good else b"0")) == {b"1"}


def _say(ranks: Communication, text: str) -> None:
    if ranks.rank == 0:
        say(text)
