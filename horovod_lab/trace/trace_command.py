"""`horovod-opt trace`: its options and messages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from horovod_lab.trace import chrome_trace, rank_timeline
from horovod_lab.trace.chrome_trace import Trace
from horovod_lab.trace.clocks import Alignment
from horovod_lab.trace.rank_timeline import RankTimeline, TimelineError
from horovod_opt import stats_lines

NAME = "horovod-opt trace"


def add(commands: argparse._SubParsersAction) -> None:
    trace = commands.add_parser(
        "trace",
        help="make one trace for Perfetto of the timelines of all ranks",
        description="Makes one file in Chrome's trace event format of the timelines that a job "
        "wrote with HOROVOD_TIMELINE=FILE and HOROVOD_OPT_TIMELINE_RANKS=1, with the clocks of its "
        "hosts aligned. Perfetto (ui.perfetto.dev) and chrome://tracing open it.",
    )
    trace.add_argument("timeline", type=Path, metavar="FILE",
                       help="rank 0's; those of the others, FILE.rank-1 and so on, lie beside it")
    trace.add_argument("--stats", type=Path, metavar="DIR",
                       help="the folder of HOROVOD_OPT_STATS_FOLDER: counters over time as well")
    trace.add_argument("--output", type=Path, default=Path("trace.json"), metavar="FILE",
                       help="(%(default)s)")
    trace.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    try:
        trace, facts, said = merge(options.timeline, options.stats)
        trace.write(options.output, facts)
    except (TimelineError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    for text in said:
        print(f"{NAME}: {text}", file=sys.stderr)
    print(f"Written: {options.output}")
    return 0


def merge(path: Path, stats: Path | None) -> tuple[Trace, dict[str, Any], list[str]]:
    """The trace of the timelines that lie at `path` and of the counters in `stats`, facts for its
    head, and what the user should know. Raises TimelineError."""
    files = rank_timeline.files_of(path)
    if not files:
        raise TimelineError(f"{path}: there is no such file, and none of another rank. Remedy: run "
                            f"the job with HOROVOD_TIMELINE={path} and "
                            "HOROVOD_OPT_TIMELINE_RANKS=1")
    timelines = sorted(map(rank_timeline.read, files), key=lambda timeline: timeline.rank)
    trace = Trace()
    alignment = chrome_trace.add_timelines(trace, timelines)
    if stats is not None:
        _add_stats(trace, stats, timelines, alignment.starts)
    return trace, _facts(timelines, alignment), [
        *_missing(path, timelines), *_clocks(alignment.error_us)]


def _facts(timelines: Sequence[RankTimeline], alignment: Alignment) -> dict[str, Any]:
    """`shift_us`: by a host's boot, what was added to its steady clock."""
    first = timelines[0]
    return {"ranks": first.size, "first_rank_start_epoch_us": first.start_epoch_us,
            "clock_error_us": alignment.error_us,
            "shift_us": {timeline.boot: start - timeline.start_ns / 1e3
                         for timeline, start in zip(timelines, alignment.starts)}}


def _missing(path: Path, timelines: Sequence[RankTimeline]) -> list[str]:
    there = {timeline.rank for timeline in timelines}
    lost = sorted(set(range(timelines[0].size)) - there)
    said = []
    if lost:
        said.append(f"{path} has no timeline of rank {', '.join(map(str, lost))}: those of other "
                    "hosts have to be copied to it")
    said += [f"{timeline.path} ends within an event: the job was killed, or goes on"
             for timeline in timelines if timeline.is_cut]
    return said


def _clocks(errors: dict[str, float | None]) -> list[str]:
    return [f"the clock of {host} is as its time of day has it, as its ranks did nothing together "
            "with the first host's" if error is None else
            f"the clock of {host} is aligned to {error:.0f} us" for host, error in errors.items()]


def _add_stats(trace: Trace, folder: Path, timelines: Sequence[RankTimeline],
               starts: Sequence[float]) -> None:
    for timeline, start in zip(timelines, starts):
        lines = [line for line in stats_lines.read(stats_lines.file_of(folder, timeline.rank))
                 if line["pid"] == timeline.pid]
        chrome_trace.add_counters(trace, lines, start - timeline.start_ns / 1e3)
