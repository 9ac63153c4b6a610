"""The table that HOROVOD_OPT_STATS=1 prints at shutdown: what the background thread cost."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table

from horovod_opt.counters import Stats

# One column per rank up to here, beyond it minimum, median and maximum.
MOST_RANK_COLUMNS = 16
# Columns of a terminal that a table may use, and how many ranks fit into them.
WIDTH = 100
MOST_RANKS_PER_TABLE = 5


@dataclasses.dataclass(frozen=True)
class Row:
    """One line: label, unit, the value of one rank, how it is written. `in_mode`: the only mode
    that has it or, with a minus, the only one that does not."""

    label: str
    unit: str
    value: Callable[[Stats], float]
    write: Callable[[float], str]
    style: str = ""
    in_mode: str = ""

    def belongs_to(self, mode: str) -> bool:
        modes = mode.split("+")
        if self.in_mode.startswith("-"):
            return self.in_mode[1:] not in modes
        return not self.in_mode or self.in_mode in modes


def _seconds(value: float) -> str:
    return f"{value:,.3f}" if value < 100 else f"{value:,.0f}"


def _hundredths(value: float) -> str:
    return f"{value:,.2f}"


def _tenths(value: float) -> str:
    return f"{value:,.1f}" if value < 1e5 else f"{value:,.0f}"


def _count(value: float) -> str:
    if value < 1e7:
        return f"{value:,.0f}"
    return f"{value / 1e6:,.1f} M" if value < 1e10 else f"{value / 1e9:,.1f} G"


def _percent_of_elapsed(seconds: float, rank: Stats) -> float:
    return 100 * seconds / rank.elapsed_seconds if rank.elapsed_seconds > 0 else 0.0


def _planned_percent(rank: Stats) -> float:
    return 100 * rank.planned_bytes / rank.data_bytes if rank.data_bytes else 0.0


def _per_bucket(total: float, rank: Stats) -> float:
    return total / rank.planned_buckets if rank.planned_buckets else 0.0


def _wakeups(rank: Stats) -> float:
    return _per_bucket(rank.planned_wakeups, rank)


def _latency_ms(rank: Stats) -> float:
    return _per_bucket(1e3 * rank.planned_latency_seconds, rank)


GROUPS = {
    "Background thread": (
        Row("CPU", "s", lambda r: r.background_seconds, _seconds),
        Row(
            "CPU, part of one core",
            "%",
            lambda r: _percent_of_elapsed(r.background_seconds, r),
            _tenths,
            style="bold",
        ),
        Row("asleep between cycles", "s", lambda r: r.sleep_seconds, _seconds, in_mode="-topo"),
        Row("waiting for other ranks", "s", lambda r: r.wait_seconds, _seconds),
        Row("  of that asleep", "s", lambda r: r.poll_sleep_seconds, _seconds, in_mode="nbcs"),
        Row("moving data", "s", lambda r: r.data_seconds, _seconds),
        Row("data moved", "MiB", lambda r: r.data_bytes / 2**20, _tenths),
        Row("steps of training", "", lambda r: r.steps, _count),
        Row("cycles", "", lambda r: r.cycles, _count, in_mode="-topo"),
        Row("rounds of negotiation", "", lambda r: r.cycles, _count, in_mode="topo"),
        Row("  asked for", "", lambda r: r.requested_rounds, _count, in_mode="topo"),
        Row("  in steady state", "", lambda r: r.steady_rounds, _count, "bold", "topo"),
        Row("cycles that slept", "", lambda r: r.cycles_slept, _count, in_mode="-topo"),
        Row("MPI tests", "", lambda r: r.polls, _count, in_mode="nbcs"),
        Row("planned iterations", "", lambda r: r.planned_iterations, _count, "bold", "topo"),
        Row("buckets, not negotiated", "", lambda r: r.planned_buckets, _count, in_mode="topo"),
        Row("  of the data moved", "%", _planned_percent, _tenths, in_mode="topo"),
        Row("  wake-ups for each", "", _wakeups, _hundredths, in_mode="topo"),
        Row("  last tensor to result", "ms", _latency_ms, _hundredths, in_mode="topo"),
        Row("agreements between nodes", "", lambda r: r.agreements, _count, in_mode="topo"),
        Row("gave up its core", "times", lambda r: r.background_voluntary_switches, _count),
        Row("lost its core", "times", lambda r: r.background_involuntary_switches, _count),
    ),
    "Input": (
        Row("samples taken", "", lambda r: r.input_samples, _count),
        Row("  their bytes", "MiB", lambda r: r.input_bytes / 2**20, _tenths),
        Row("  from storage", "", lambda r: r.input_samples_from_storage, _count),
        Row("training waited for them", "s", lambda r: r.input_wait_seconds, _seconds, "bold"),
        Row("read from storage", "MiB", lambda r: r.input_node_bytes / 2**20, _tenths),
        Row("  in requests", "", lambda r: r.input_node_requests, _count),
    ),
    "Whole process": (
        Row("CPU", "s", lambda r: r.process_seconds, _seconds),
        Row(
            "CPU, in cores",
            "",
            lambda r: _percent_of_elapsed(r.process_seconds, r) / 100,
            _hundredths,
        ),
        Row("gave up a core", "times", lambda r: r.process_voluntary_switches, _count),
        Row("lost a core", "times", lambda r: r.process_involuntary_switches, _count),
    ),
}


def _messages(rank: Stats) -> str:
    return "" if rank.messages == "none" else f"{rank.messages} between nodes, "


def show(ranks: Sequence[Stats], file: TextIO) -> None:
    """Prints the counters of all ranks, `ranks[i]` being rank i's."""
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console.width = WIDTH  # horovodrun reads it through a pipe, which has no width
    if len(ranks) > MOST_RANK_COLUMNS:
        console.print(_table(ranks, ["min", "median", "max", "max on rank"], _spread))
        return
    tables = math.ceil(len(ranks) / MOST_RANKS_PER_TABLE)
    per_table = math.ceil(len(ranks) / tables)
    for first in range(0, len(ranks), per_table):
        part = ranks[first : first + per_table]
        headers = [f"rank {rank.rank}" for rank in part]
        console.print(_table(ranks, headers, lambda row, values: map(row.write, values), part))


def _spread(row: Row, values: Sequence[float]) -> Iterator[str]:
    yield row.write(min(values))
    yield row.write(statistics.median(values))
    yield row.write(max(values))
    yield str(values.index(max(values))) if max(values) > min(values) else "all equal"


def _table(
    ranks: Sequence[Stats],
    headers: Sequence[str],
    cells: Callable[[Row, Sequence[float]], Iterator[str]],
    part: Sequence[Stats] | None = None,
) -> Table:
    first = ranks[0]
    table = Table(
        title="What the background thread cost",
        title_style="bold",
        title_justify="left",
        caption=(
            f"mode {first.mode}, {len(ranks)} rank{'s' if len(ranks) > 1 else ''}, "
            f"{first.controller} controller, {_messages(first)}"
            f"{_seconds(first.elapsed_seconds)} s since hvd.init()"
        ),
        caption_justify="left",
    )
    table.add_column("", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True, min_width=9)
    for group, rows in GROUPS.items():
        if group == "Input" and not any(rank.input_samples for rank in ranks):
            continue
        table.add_row(group, style="bold cyan")
        for row in rows:
            if row.belongs_to(first.mode):
                values = [row.value(rank) for rank in part or ranks]
                table.add_row(f"  {row.label}", row.unit, *cells(row, values), style=row.style)
        table.add_section()
    return table
