"""Who has come to what all ranks of a job have to do: the first of those that wait for long says
whom for."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from horovod_opt.io.job import patience
from horovod_opt.io.job.notices import Notices, find_notices
from horovod_opt.io.progress import say

SHOWN = 8  # ranks
# Where the ranks ran when they last met, by rank.
_hosts: tuple[str, ...] = ()


def know_hosts(hosts: Sequence[str]) -> None:
    global _hosts
    _hosts = tuple(hosts)


def name_ranks(ranks: Iterable[int], size: int) -> str:
    """These of `size` ranks, with their nodes where there are several and they are known: as "rank
    3 on n1", "ranks 0, 1 on n0 and 3 on n1"."""
    ranks = list(ranks)
    hosts = _hosts if len(_hosts) == size and len(set(_hosts)) > 1 else ("",) * size
    shown, by_host = ranks[:SHOWN], {}
    for rank in shown:
        by_host.setdefault(hosts[rank], []).append(str(rank))
    groups = [", ".join(of_host) + (f" on {host}" if host else "")
              for host, of_host in by_host.items()]
    more = [f"{len(ranks) - SHOWN} more"] if len(ranks) > SHOWN else []
    listed = [*groups, *more]
    return (f"rank{'s' if len(ranks) > 1 else ''} {', '.join(listed[:-1])}"
            f"{' and ' if len(listed) > 1 else ''}{listed[-1]}")


@contextmanager
def watched(rank: int, size: int, channel: str, what: str) -> Iterator[None]:
    """Around a call that all of `size` ranks make, in which this one `what`."""
    over = threading.Event()
    threading.Thread(target=_watch, args=(over, rank, size, channel, what), name="hio-waits",
                     daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(over: threading.Event, rank: int, size: int, channel: str, what: str) -> None:
    first = patience.SECONDS / 10  # by then others have come in most calls
    if over.wait(first):
        return
    notices, key = find_notices(), f"{channel}-{rank}"
    is_put = False
    with suppress(Exception):  # then nobody can be named
        notices.put(key)
        is_put = True
    try:
        if not over.wait(patience.SECONDS - first):
            whom = _awaited(notices if is_put else None, rank, size, channel)
            if whom and not over.is_set():
                say(f"rank {rank} of {size} has waited for {patience.SECONDS:.0f} s for {whom}, "
                    f"as it {what}: every rank has to do so; remedy: the same calls on all ranks, "
                    "or open(..., alone=True) for what one of them reads by itself, as an "
                    "evaluation")
            over.wait()
    finally:
        if is_put:
            with suppress(Exception):
                notices.remove(key)


def _awaited(notices: Notices | None, rank: int, size: int, channel: str) -> str:
    """Whom the ranks wait for; "" where a rank before this one waits, which says it."""
    if notices is None:
        return "others"
    try:
        if any(notices.has(f"{channel}-{other}") for other in range(rank)):
            return ""
        absent = [*range(rank), *(other for other in range(rank + 1, size)
                                  if not notices.has(f"{channel}-{other}"))]
    except Exception:
        return "others"
    if not absent:
        return "an answer, though all have come"
    if notices.are_of_all or len(absent) == 1:
        return name_ranks(absent, size)
    here = [other for other in absent if len(_hosts) == size and _hosts[other] == _hosts[rank]]
    if here:
        return name_ranks(here, size)
    return f"some of {name_ranks(absent, size)} (those of other nodes cannot be asked)"
