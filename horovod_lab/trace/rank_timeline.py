"""One rank's timeline, as HOROVOD_TIMELINE and HOROVOD_OPT_TIMELINE_RANKS=1 write it.

Upstream's rows are tensors: when each is negotiated, performed, copied. Ours are what a rank does:
"buckets", "negotiation", "input". A job that was killed leaves a file that ends anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

ROWS = ("buckets", "negotiation", "input")
CYCLE = "CYCLE_START"
# In upstream's timeline a planned tensor has this as an activity; its bucket is in our row.
PLANNED = "PLANNED_"
NEGOTIATE = "NEGOTIATE_"


class TimelineError(ValueError):
    """A file that is no timeline; the text names it and the remedy."""


@dataclass(frozen=True)
class Span:
    """`row`: a tensor, or one of ROWS. Times in us since the timeline of its rank began. `parts`:
    the activities within it."""

    row: str
    name: str
    begin: float
    end: float
    parts: tuple[Span, ...] = ()

    @property
    def is_planned(self) -> bool:
        return any(part.name.startswith(PLANNED) for part in self.parts)


@dataclass
class RankTimeline:
    """`start_ns`: when its time began, by the steady clock of all processes of a boot of its host;
    `start_epoch_us`: the same by the time of day."""

    path: Path
    rank: int
    size: int
    host: str
    boot: str
    pid: int
    start_ns: int
    start_epoch_us: int
    spans: list[Span] = field(default_factory=list)
    cycles: list[float] = field(default_factory=list)  # us, where they began
    is_cut: bool = False  # the file ends within an event, or within a span


_BUCKET = re.compile(r"(bucket (\d+), iteration (\d+), set (\d+), plan ([^,]+)), (\d+) tensors, "
                     r"(\d+) bytes")


@dataclass(frozen=True)
class Bucket:
    """What the name of a span in the row "buckets" tells; `key` is equal on all ranks."""

    key: str
    label: str
    arguments: Mapping[str, Any]


def bucket_of(name: str) -> Optional[Bucket]:
    match = _BUCKET.fullmatch(name)
    if match is None:
        return None
    key, number, iteration, process_set, plan, tensors, size = match.groups()
    return Bucket(key, f"bucket {number}", {
        "iteration": int(iteration), "tensors": int(tensors), "bytes": int(size), "plan": plan,
        "process set": int(process_set)})


def read(path: Path) -> RankTimeline:
    """Raises TimelineError."""
    events, is_cut = _events(path)
    facts = next((event["args"] for event in events
                  if event.get("ph") == "M" and "monotonic_ns" in event.get("args", {})), None)
    if facts is None:
        raise TimelineError(
            f"{path} is not the timeline of one of all ranks. Remedy: run the job with "
            f"HOROVOD_TIMELINE={path.name} and HOROVOD_OPT_TIMELINE_RANKS=1")
    timeline = RankTimeline(
        path, facts["rank"], facts["size"], facts["host"], facts["boot"], facts["pid"],
        facts["monotonic_ns"], facts["start_time_since_epoch_in_micros"], is_cut=is_cut)
    _add(timeline, events)
    return timeline


def _events(path: Path) -> tuple[list[dict], bool]:
    """All whole events of the file, and whether more was begun."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise TimelineError(f"{path} cannot be read: {error.strerror}") from error
    try:
        events = json.loads(text)
        if isinstance(events, list):
            return events, False
    except ValueError:
        pass
    decoder, events, at = json.JSONDecoder(), [], 0
    while (at := text.find("{", at)) >= 0:
        try:
            event, at = decoder.raw_decode(text, at)
        except ValueError:
            break
        events.append(event)
    return events, True


def _add(timeline: RankTimeline, events: Sequence[dict]) -> None:
    rows = {event["pid"]: event["args"]["name"] for event in events
            if event.get("ph") == "M" and "name" in event.get("args", {})}
    open_spans: dict[str, list[tuple[str, float, list[Span]]]] = {}
    for event in events:
        phase, row = event.get("ph"), rows.get(event.get("pid"), "")
        if phase == "B":
            open_spans.setdefault(row, []).append((event["name"], event["ts"], []))
        elif phase == "E" and open_spans.get(row):
            name, begin, parts = open_spans[row].pop()
            span = Span(row, name, begin, event["ts"], tuple(parts))
            if open_spans[row]:
                open_spans[row][-1][2].append(span)
            else:
                timeline.spans.append(span)
        elif phase == "X" and row in ROWS:
            begin = event["ts"]
            timeline.spans.append(Span(row, event["name"], begin, begin + event["dur"]))
        elif phase == "i" and event["name"] == CYCLE:
            timeline.cycles.append(event["ts"])
    timeline.is_cut |= any(open_spans.values())


def files_of(path: Path) -> list[Path]:
    """The timelines of all ranks, where rank 0 has written to `path`: the files that are there."""
    others = [file for file in path.parent.glob(f"{path.name}.rank-*")
              if file.name.rpartition("-")[2].isdigit()]
    return [*([path] if path.exists() else []),
            *sorted(others, key=lambda file: int(file.name.rpartition("-")[2]))]


def meetings(timeline: RankTimeline) -> Iterator[tuple[str, float, float]]:
    """What no rank ends before every rank has begun it: a key that is equal on all ranks, begin and
    end, in us."""
    counts: dict[tuple[str, str], int] = {}
    for span in timeline.spans:
        if span.row == "buckets":
            bucket = bucket_of(span.name)
            if bucket is not None:
                yield bucket.key, span.begin, span.end
        elif span.row not in ROWS and span.name in ("ALLREDUCE", "ALLGATHER", "ALLTOALL"):
            if not span.is_planned:
                number = counts[span.row, span.name] = counts.get((span.row, span.name), 0) + 1
                yield f"{span.name} {number} of {span.row}", span.begin, span.end
