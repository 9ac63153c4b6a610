"""A profile as a trace for Perfetto: what the threads of each rank did and, where the job wrote
timelines, its buckets, waits and input."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from horovod_lab.profile.bursts import Burst
from horovod_lab.profile.classes import BACKGROUND
from horovod_lab.profile.cycles import ASLEEP, WAITING, intervals, merge
from horovod_lab.profile.record import Ranks
from horovod_lab.trace import rank_timeline, trace_command
from horovod_lab.trace.chrome_trace import Trace
from horovod_lab.trace.rank_timeline import TimelineError

TIMELINE = "HOROVOD_TIMELINE"
INTERVAL_MS = 100  # between two lines of counters
NAMES = {WAITING: "waits for a core"}


class Recording:
    """Timelines and counters that the job writes into `folder`, or where its user has them."""

    def __init__(self, folder: Path, environ: Mapping[str, str]):
        own = environ.get(TIMELINE, "")
        self._is_own = own in ("", "DYNAMIC")
        self.timeline = folder / "timeline.json" if self._is_own else Path(own)
        self.stats = folder / "counters"
        self.environ = {TIMELINE: str(self.timeline), "HOROVOD_OPT_TIMELINE_RANKS": "1",
                        "HOROVOD_OPT_STATS_FOLDER": str(self.stats),
                        "HOROVOD_OPT_STATS_INTERVAL_MS": str(INTERVAL_MS)}

    def clear(self) -> None:
        """Of an earlier job."""
        for file in rank_timeline.files_of(self.timeline):
            file.unlink()
        shutil.rmtree(self.stats, ignore_errors=True)


def write_trace(path: Path, ranks: Ranks, bursts: Sequence[Burst],
                recording: Recording | None) -> list[str]:
    """Returns what the user should know."""
    trace, facts, said = Trace(), {"ranks": len(ranks.ranks)}, []
    shift = 0.0  # us from this host's steady clock to that of the trace
    if recording is not None:
        try:
            trace, facts, said, shift = _timelines(recording)
        except TimelineError as error:
            said = [str(error)]
    known = {event["pid"] for event in trace.events}
    for rank in ranks.ranks:
        if (rank.process.rank or 0) not in known:
            trace.name_rank(rank.process.rank or 0, f"rank {rank.process.rank or 0}")
    _add_bursts(trace, ranks, bursts, shift)
    _add_classes(trace, ranks, shift)
    trace.write(path, facts)
    return said


def _timelines(recording: Recording) -> tuple[Trace, dict[str, Any], list[str], float]:
    trace, facts, said = trace_command.merge(recording.timeline, recording.stats)
    # Every rank of this host has the same; the first timeline's clock is the trace's.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return trace, facts, said, facts["shift_us"].get(boot, 0.0)


def _add_bursts(trace: Trace, ranks: Ranks, bursts: Sequence[Burst], shift: float) -> None:
    """The background threads, where they were read every half millisecond; asleep is a gap."""
    background = {rank.process.pid: {thread.tid for thread in ranks.of_class(rank, BACKGROUND)}
                  for rank in ranks.ranks}
    numbers = {rank.process.pid: rank.process.rank or 0 for rank in ranks.ranks}
    for burst in bursts:
        for pid, threads in burst.only(background).threads.items():
            timelines = [intervals(one.readings, one.runs_at_end) for one in threads]
            for interval in merge(timelines):
                if interval.state != ASLEEP:
                    begin, end = ((burst.start + at) * 1e6 + shift
                                  for at in (interval.start, interval.end))
                    trace.span(numbers[pid], "background thread",
                               NAMES.get(interval.state, interval.state), begin, end)


def _add_classes(trace: Trace, ranks: Ranks, shift: float) -> None:
    """Cores that each class of threads used, from sample to sample."""
    for rank in ranks.ranks:
        usage = {name: ranks.usage(rank, name) for name in ranks.all_classes()}
        for sample in range(rank.first + 1, rank.last + 1):
            begin, end = ranks.times[sample - 1], ranks.times[sample]
            trace.counter(rank.process.rank or 0, "cores used by class", begin * 1e6 + shift, {
                name: round(by_sample[sample].cpu / (end - begin), 4) if sample in by_sample
                else 0.0 for name, by_sample in usage.items()})
