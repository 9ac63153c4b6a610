"""Chrome's trace event format, which Perfetto and chrome://tracing read: a process for each rank, a
thread for each thing that a rank does, times in us.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from horovod_lab.trace.clocks import Alignment, align
from horovod_lab.trace.rank_timeline import (
    NEGOTIATE,
    ROWS,
    RankTimeline,
    Span,
    bucket_of,
    meetings,
)

# Threads of a rank, in their order; one whose spans overlap has as many lanes as it needs.
THREADS = ("input", "buckets", "operations", "negotiation", "tensors in negotiation",
           "background thread")
LANES = 1000  # more than a thread ever has
TOGETHER = 200.0  # us; tensors that follow each other so closely are one fused operation
NAMED = 20  # tensors of an operation that are named


class Trace:
    """Collects events; the earliest is at 0."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._named: set[tuple[int, int]] = set()

    def name_rank(self, rank: int, name: str) -> None:
        self._meta(rank, 0, "process_name", name=name)
        self._meta(rank, 0, "process_sort_index", sort_index=rank)

    def span(self, rank: int, thread: str, name: str, begin: float, end: float, lane: int = 0,
             arguments: Mapping[str, Any] | None = None) -> None:
        tid = 1 + THREADS.index(thread) * LANES + lane
        if (rank, tid) not in self._named:
            self._named.add((rank, tid))
            self._meta(rank, tid, "thread_name", name=thread + (f" {lane + 1}" if lane else ""))
            self._meta(rank, tid, "thread_sort_index", sort_index=tid)
        self.events.append({"ph": "X", "pid": rank, "tid": tid, "name": name, "ts": begin,
                            "dur": max(end - begin, 0.0), "args": dict(arguments or {})})

    def counter(self, rank: int, name: str, at: float, values: Mapping[str, float]) -> None:
        self.events.append({"ph": "C", "pid": rank, "tid": 0, "name": name, "ts": at,
                            "args": dict(values)})

    def instant(self, rank: int, thread: str, name: str, at: float) -> None:
        self.events.append({"ph": "i", "pid": rank, "tid": 1 + THREADS.index(thread) * LANES,
                            "name": name, "ts": at, "s": "t"})

    def _meta(self, rank: int, tid: int, kind: str, **arguments: object) -> None:
        self.events.append({"ph": "M", "pid": rank, "tid": tid, "name": kind, "args": arguments})

    def write(self, path: Path, facts: Mapping[str, Any]) -> None:
        """Whole or not at all."""
        timed = [event for event in self.events if "ts" in event]
        start = min((event["ts"] for event in timed), default=0.0)
        for event in timed:
            event["ts"] = round(event["ts"] - start, 3)
            if "dur" in event:
                event["dur"] = round(event["dur"], 3)
        # A span comes before those within it.
        ordered = sorted(self.events, key=lambda e: (e.get("ts", -1.0), -e.get("dur", 0.0)))
        part = path.with_name(path.name + ".part")
        with part.open("w") as file:
            file.write('{"displayTimeUnit": "ms", "otherData": ' + json.dumps(facts)
                       + ',\n"traceEvents": [\n')
            file.write(",\n".join(map(json.dumps, ordered)) + "\n]}\n")
        part.replace(path)


def add_timelines(trace: Trace, timelines: Sequence[RankTimeline]) -> Alignment:
    alignment = align(timelines)
    begins: dict[str, tuple[float, int]] = {}  # by meeting: when the last rank began, and which
    for timeline, start in zip(timelines, alignment.starts):
        for key, begin, _ in meetings(timeline):
            begins[key] = max(begins.get(key, (begin + start, timeline.rank)),
                              (begin + start, timeline.rank))
    for timeline, start in zip(timelines, alignment.starts):
        trace.name_rank(timeline.rank, f"rank {timeline.rank} on {timeline.host}")
        _add_buckets(trace, timeline, start, begins)
        _add_operations(trace, timeline, start)
        for span in timeline.spans:
            if span.row in ("negotiation", "input"):
                trace.span(timeline.rank, span.row, span.name, start + span.begin,
                           start + span.end)
        for at in timeline.cycles:
            trace.instant(timeline.rank, "negotiation", "cycle", start + at)
    return alignment


def _add_buckets(trace: Trace, timeline: RankTimeline, start: float,
                 begins: Mapping[str, tuple[float, int]]) -> None:
    spans = [span for span in timeline.spans if span.row == "buckets"]
    for span, lane in lanes(spans):
        bucket = bucket_of(span.name)
        label, arguments = (bucket.label, bucket.arguments) if bucket else (span.name, {})
        begin, end = start + span.begin, start + span.end
        trace.span(timeline.rank, "buckets", label, begin, end, lane, arguments)
        last, rank = begins[bucket.key] if bucket else (begin, timeline.rank)
        if last > begin and rank != timeline.rank:
            trace.span(timeline.rank, "buckets", f"waits for rank {rank}", begin, min(last, end),
                       lane)
        if begin <= last < end:
            trace.span(timeline.rank, "buckets", "reduces", last, end, lane)


def _add_operations(trace: Trace, timeline: RankTimeline, start: float) -> None:
    """Those that upstream performs, and the negotiation of their tensors, which rank 0 sees."""
    spans = [span for span in timeline.spans if span.row not in ROWS and not span.is_planned]
    for thread in ("operations", "tensors in negotiation"):
        negotiated = thread != "operations"
        fused = _fused(span for span in spans if span.name.startswith(NEGOTIATE) == negotiated)
        for span, lane in lanes([span for span, _ in fused]):
            tensors = dict((id(one), rows) for one, rows in fused)[id(span)]
            label = tensors[0] if len(tensors) == 1 else f"{len(tensors)} tensors"
            trace.span(timeline.rank, thread, f"{span.name} of {label}", start + span.begin,
                       start + span.end, lane, {"tensors": ", ".join(tensors[:NAMED])})
            for part in span.parts:
                trace.span(timeline.rank, thread, part.name, start + max(part.begin, span.begin),
                           start + min(part.end, span.end), lane)


def _fused(spans: Iterable[Span]) -> list[tuple[Span, list[str]]]:
    """Tensors of one operation, which upstream's timeline has one by one, as a span of the first's
    begin to the last's end, with their names."""
    groups: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: span.begin):
        group = groups[-1] if groups else []
        if (group and group[0].name == span.name and span.begin < group[0].end
                and span.begin - group[-1].begin < TOGETHER
                and span.row not in {other.row for other in group}):
            group.append(span)
        else:
            groups.append([span])
    return [(Span(group[0].row, group[0].name, group[0].begin, max(span.end for span in group),
                  group[0].parts), [span.row for span in group]) for group in groups]


def lanes(spans: Sequence[Span]) -> list[tuple[Span, int]]:
    """Each with a lane in which nothing overlaps it: the lowest that is free."""
    placed, free, busy, count = [], [], [], 0
    for span in sorted(spans, key=lambda span: span.begin):
        while busy and busy[0][0] <= span.begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, count = count, count + 1
        heapq.heappush(busy, (span.end, lane))
        placed.append((span, lane))
    return placed


# Of two lines of counters, by track: what is shown of their difference, for each second between.
TRACKS = {
    "cores used": {"background thread": ("background_user_seconds", "background_system_seconds"),
                   "whole process": ("process_user_seconds", "process_system_seconds")},
    "share of time": {"waiting for input": ("input_wait_seconds",),
                      "waiting in negotiation": ("wait_seconds",),
                      "moving data": ("data_seconds",)},
    "reduced, MB/s": {"all": ("data_bytes",), "planned": ("planned_bytes",)},
    "input, MB/s": {"taken": ("input_bytes",), "from storage": ("input_node_bytes",),
                    "from other nodes": ("input_peer_bytes",)},
}


def add_counters(trace: Trace, lines: Sequence[Mapping[str, Any]], shift: float) -> None:
    """Of one rank's lines, as HOROVOD_OPT_STATS_FOLDER has them; `shift`, in us, is added to the
    steady clock of its host."""
    for before, now in zip(lines, lines[1:]):
        seconds = now["monotonic"] - before["monotonic"]
        if seconds <= 0 or now["elapsed_seconds"] < before["elapsed_seconds"]:
            continue  # the counters began anew
        at = before["monotonic"] * 1e6 + shift
        for track, series in TRACKS.items():
            per_second = {
                name: sum(now[field] - before[field] for field in fields) / seconds
                for name, fields in series.items()}
            if track.endswith("MB/s"):
                per_second = {name: value / 1e6 for name, value in per_second.items()}
            if track.startswith("input") and not now["input_samples"]:
                continue
            trace.counter(now["rank"], track, at, per_second)
    if lines:
        for track, series in TRACKS.items():  # otherwise the last value would go on
            if not track.startswith("input") or lines[-1]["input_samples"]:
                trace.counter(lines[-1]["rank"], track, lines[-1]["monotonic"] * 1e6 + shift,
                              dict.fromkeys(series, 0.0))
