"""Agrees on a name that the ranks of a group have in common and nobody before them had.

A store may outlive the processes that wrote into it: from PyTorch 2.5 on torchrun gives the store
of one attempt to the next (pytorch/pytorch#135712), and what each host counts as its attempts
differs. So what a rank reads below a name that earlier processes used may be theirs.

Invariants:
  G1  A rank goes on with a name only if it has read it below a key of its own, drawn at random by
      this process: no earlier process has caused it to be written.
  G2  Rank 0 ends well only when every rank has said, below the new name, that it has it. Until then
      it looks again for who has come: what it has found may be an earlier process's word.
  G3  How it ends, rank 0 says once, below the new name, and the others wait for that: it ends well
      for all of them, or for none of those that have come.
Earlier processes of the group have ended: launchers end all of them before they start others.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence

import torch.distributed as dist

WELL = b"well"
# Between two looks into the store; seconds. It is asked and not waited for: a waiting client blocks
# the process's other users of it, and cannot be interrupted.
FIRST_PAUSE, LAST_PAUSE = 0.0005, 0.05
# Rank 0's last word is on its way so long at most; seconds.
GRACE = 5.0


def agree_on_generation(store: dist.Store, rank: int, names: Sequence[int], seconds: float,
                        group: str) -> str:
    """Collective over the group's ranks, `names` of them in the job: the same text on all of them.

    Raises:
        dist.DistStoreError: ranks have not come within `seconds`, the same text on all that have.
    """
    if rank == 0:
        return _lead(store, names, seconds, group)
    mine = secrets.token_hex(8)
    store.set(f"come {rank}", mine)
    generation = _await(store, f"answer {mine}", seconds)
    outcome = None
    if generation is not None:
        store.set(f"{generation.decode()} has {rank}", "it")
        outcome = _await(store, f"{generation.decode()} outcome", seconds + GRACE)
    if outcome != WELL:
        raise dist.DistStoreError(outcome.decode() if outcome
                                  else _missing(names[:1], seconds, group))
    return generation.decode()


def _lead(store: dist.Store, names: Sequence[int], seconds: float, group: str) -> str:
    generation = secrets.token_hex(8)
    answered: set[bytes] = set()
    left = range(1, len(names))
    for _ in _looks(seconds):
        for rank in left:
            if not store.check([f"come {rank}"]):
                continue
            who = store.get(f"come {rank}")
            if who not in answered:
                answered.add(who)
                store.set(f"answer {who.decode()}", generation)
        left = [rank for rank in left if not store.check([f"{generation} has {rank}"])]
        if not left:
            store.set(f"{generation} outcome", WELL)
            return generation
    outcome = _missing([names[rank] for rank in left], seconds, group)
    store.set(f"{generation} outcome", outcome)
    raise dist.DistStoreError(outcome)


def _await(store: dist.Store, key: str, seconds: float) -> bytes | None:
    """Its value, None if it has not come within `seconds`."""
    return next((store.get(key) for _ in _looks(seconds) if store.check([key])), None)


def _looks(seconds: float) -> Iterator[None]:
    """Again and again, once at least, for `seconds`."""
    end, pause = time.monotonic() + seconds, FIRST_PAUSE
    while True:
        yield
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(2 * pause, LAST_PAUSE)


def _missing(names: Sequence[int], seconds: float, group: str) -> str:
    ranks = ", ".join(map(str, sorted(names)))
    who = f"rank {ranks} has" if len(names) == 1 else f"ranks {ranks} have"
    return (f"making group {group}: {who} not come within {seconds:g} s; remedy: see what they do, "
            "or a longer timeout=")
