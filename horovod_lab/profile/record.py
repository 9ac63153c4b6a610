"""The document that a profile amounts to."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

from horovod_lab.profile import excerpts
from horovod_lab.profile.bursts import Bursts
from horovod_lab.profile.classes import BACKGROUND, CLASSES, Classes
from horovod_lab.profile.sampler import SampledRank, Sampler, Usage

STEADY = ("the second half of the time in which all ranks had a background thread: the first may "
          "be start-up, tracing and warm-up")


class Ranks:
    """The ranks of the job, of all processes that have loaded Horovod: those that had a background
    thread. One whose environment names no rank is rank 0, if it is alone."""

    def __init__(self, sampler: Sampler, classes: Classes):
        self.times = sampler.times
        self._classes = {rank: {thread: classes.of(name) for thread, name in rank.names().items()}
                         for rank in sampler.ranks.values()}
        with_background = [rank for rank in sampler.ranks.values()
                           if BACKGROUND in self.classes_of(rank)]
        numbered = [rank for rank in with_background if rank.process.rank is not None]
        self.ranks = sorted(numbered or with_background[-1:],
                            key=lambda rank: (rank.process.rank or 0, rank.first))

    def classes_of(self, rank: SampledRank) -> set[str]:
        return set(self._classes[rank].values())

    def of_class(self, rank: SampledRank, name: str) -> list:
        return [thread for thread, class_ in self._classes[rank].items() if class_ == name]

    def all_classes(self) -> list[str]:
        extra = {name for rank in self.ranks for name in self.classes_of(rank)} - {*CLASSES}
        return [*CLASSES, *sorted(extra)]

    def steady(self) -> tuple[int, int]:
        """The first and the last sample of the steady part."""
        background = [self.of_class(rank, BACKGROUND) for rank in self.ranks]
        appeared = max(min(next(iter(thread.series)) for thread in threads)
                       for threads in background)
        end = min(max(thread.last for thread in threads) for threads in background)
        if end <= appeared:  # ranks came and went, as in an elastic job
            appeared, end = self.ranks[0].first, max(rank.last for rank in self.ranks)
        middle = (self.times[appeared] + self.times[end]) / 2
        first = max((number for number in range(appeared, end) if self.times[number] <= middle),
                    default=appeared)
        return first, end

    def usage(self, rank: SampledRank, name: str) -> dict[int, Usage]:
        """By sample, what the class has used since the one before."""
        by_sample: dict[int, Usage] = {}
        for thread in self.of_class(rank, name):
            for number, usage in thread.changes():
                by_sample[number] = by_sample.get(number, Usage()) + usage
        return by_sample


def describe(ranks: Ranks, began: float, stats: Mapping[int, dict], bursts: Bursts) -> dict:
    """The parts of the document that come from sampling. `began` as time.monotonic(); `stats`:
    the job's own counters, by rank."""
    if not ranks.ranks:
        return {"steady": None, "ranks": [], "cycles": None}
    first, last = ranks.steady()
    pids = {rank.process.pid: rank.process.rank or 0 for rank in ranks.ranks}
    environ = ranks.ranks[0].process.environ
    background = {rank.process.pid: {thread.tid for thread in ranks.of_class(rank, BACKGROUND)}
                  for rank in ranks.ranks}
    return {
        "steady": {"from_seconds": round(ranks.times[first] - began, 3),
                   "to_seconds": round(ranks.times[last] - began, 3), "rule": STEADY},
        "ranks": [_rank(ranks, rank, began, (first, last), stats) for rank in ranks.ranks],
        "cycles": excerpts.summarize(
            [burst.only(background) for burst in bursts.bursts], pids, began,
            ranks.times[first], cycle_time(environ)),
    }


def cycle_time(environ: Mapping[str, str]) -> float:
    """Horovod's, in seconds."""
    try:
        return float(environ.get("HOROVOD_CYCLE_TIME", "1")) / 1e3
    except ValueError:
        return 0.001


def _rank(ranks: Ranks, rank: SampledRank, began: float, steady: tuple[int, int],
          stats: Mapping[int, dict]) -> dict:
    number = rank.process.rank or 0
    times, counters = ranks.times, stats.get(number)
    usage_by_class = {name: ranks.usage(rank, name) for name in ranks.all_classes()}
    # What was used before the rank was found counts for its first sample, which is left out.
    span = range(rank.first + 1, rank.last + 1)
    lengths = [times[sample] - times[sample - 1] for sample in span]

    def rates(field: str) -> dict[str, list[float]]:
        return {name: [round(getattr(by_sample.get(sample, Usage()), field) / length, 4)
                       for sample, length in zip(span, lengths)]
                for name, by_sample in usage_by_class.items()}

    def totals(first: int, last: int) -> dict[str, dict]:
        return {name: _totals(by_sample, len(ranks.of_class(rank, name)), first, last)
                for name, by_sample in usage_by_class.items()}

    first, last = max(steady[0], rank.first), min(steady[1], rank.last)
    return {
        "rank": number, "local_rank": rank.process.local_rank, "pid": rank.process.pid,
        "host": platform.node(), "mode": _mode(rank, counters), "cpus": list(rank.cpus),
        "seconds": round(times[rank.last] - times[rank.first], 3),
        "classes": totals(rank.first, rank.last),
        "steady": {"seconds": round(max(times[last] - times[first], 0.0), 3),
                   "classes": totals(first, last)},
        "samples": {"seconds": [round(times[sample] - began, 3) for sample in span],
                    "cpu": rates("cpu"), "involuntary": rates("involuntary"),
                    "run_delay": rates("run_delay")},
        "threads": _names(rank),
        "stats": counters,
    }


def _totals(by_sample: Mapping[int, Usage], threads: int, first: int, last: int) -> dict:
    """From one sample to the other; times in seconds."""
    total = sum((usage for sample, usage in by_sample.items() if first < sample <= last), Usage())
    return {
        "threads": threads,
        "user_seconds": round(max(total.cpu - total.system, 0.0), 4),
        "system_seconds": round(max(total.system, 0.0), 4),
        "voluntary_switches": total.voluntary, "involuntary_switches": total.involuntary,
        "run_delay_seconds": round(total.run_delay, 4),
    }


def _names(rank: SampledRank) -> dict[str, int]:
    """How many threads of each name there were: what a user's table of classes may refer to."""
    names: Sequence[str] = sorted(rank.names().values())
    return {name: names.count(name) for name in dict.fromkeys(names)}


def _mode(rank: SampledRank, stats: Mapping[str, object] | None) -> str | None:
    """None for upstream's Horovod, whose background thread has no name."""
    if stats:
        return str(stats["mode"])
    if any(thread.name.startswith("hvd-") for thread in rank.threads):
        return rank.process.environ.get("HOROVOD_OPT_MODE") or "off"
    return None
