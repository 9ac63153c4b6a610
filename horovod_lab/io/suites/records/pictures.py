"""The tables and the picture of the suite records, from its JSON alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_analysis.palette import COLOURS
from horovod_lab.io.peers import PEERS
from horovod_lab.io.suites.bars import Bar, Panel, figure
from horovod_lab.io.suites.records.results import RecordsCell, verdicts
from horovod_lab.io.suites.records.targets import MEMORY, SPEED
from horovod_lab.io.testbeds.testbed import WarmCache
from horovod_lab.measuring.comparison import Spread
from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.measuring.verdict import in_two_lines

TITLE = "Input pipelines, small records"
MIB = 1 << 20
COLD_NOTE = ("Samples of all ranks in the first seconds of a cold epoch. Read: bytes of the "
             "storage for each byte of a sample. Back: requests that begin before the last one of "
             "the same file. RL: 100 % for a complete shuffle.")
# Key of a measurement, and the format of its values.
COUNTED = (("requests", ""), ("read_factor", ".2f"), ("inversions", ".0f"),
           ("server_cpu_seconds", ".2f"), ("cpu_seconds_per_million", ""))


def section(document: dict[str, Any], targets: bool) -> Section:
    found = list(RecordsCell.each(document))
    judged = list(verdicts(document))
    reached = f"{sum(one.met is True for _, one in judged)} of {len(judged)} targets met"
    settings, absent = document["settings"], document["not_measured"]
    is_warm = settings["stand"] == WarmCache.name
    where = "out of the page cache" if is_warm else (
        f"of a cold epoch on stand {settings['stand']}")
    grids = [_measured(cell, absent) if is_warm else
             _measured_cold(f"{TITLE}, stand {settings['stand']}: {cell.ranks} ranks, "
                                    f"nodes: {settings['nodes']}", cell, absent)
             for cell in found]
    if targets:
        grids.append(_targets(judged, reached))
    drawn = [cell for cell in found if cell.base()]
    return Section(TITLE, f"Records {where} through several pipelines: {reached}.",
                   grids, [_picture(drawn, settings["stand"])] if drawn else [])


def _measured(cell: RecordsCell, absent: dict[str, str]) -> Grid:
    base = cell.base()
    rows = []
    for name in cell.series:
        failed = cell.failures(name)
        rows.append((PEERS[name].label, *(_row(cell, name, base) if cell.values(name, SPEED)
                                          else ("failed",) + ("",) * 7),
                     f"{len(failed)} failed" if failed else ""))
    rows += [(PEERS[name].label, *("",) * 8, f"not measured: {reason}")
             for name, reason in absent.items()]
    return Grid(f"{TITLE}: {cell.ranks} ranks",
                ("pipeline", "samples/s", f"x {base}" if base else "", "CPU s / million",
                 "PSS, MiB", "of it files", "processes", "RL, %", "missing, repeated", ""), rows,
                "Samples of all ranks. Medians, smallest to largest job. RL: 100 % for a complete "
                "shuffle.")


def _row(cell: RecordsCell, name: str, base: str | None) -> tuple[str, ...]:
    lost = (_worst(cell, name, key) for key in ("missing", "repeated"))
    return (in_two_lines(cell.spread(name, SPEED)),
            in_two_lines(cell.ratio(name, base), ".2f") if base else "",
            in_two_lines(cell.spread(name, "cpu_seconds_per_million")),
            in_two_lines(_scaled(cell.spread(name, MEMORY), 1 / MIB)),
            f"{cell.spread(name, 'pss_file_bytes').median / MIB:.0f}",
            f"{cell.spread(name, 'processes').median:.0f}",
            f"{100 * cell.spread(name, 'rl').median:.0f}", ", ".join(lost))


def _measured_cold(title: str, cell: RecordsCell, absent: dict[str, str]) -> Grid:
    """Of a testbed whose storage is slow: what each pipeline asked of it."""
    base = cell.base()
    rows = []
    for name in cell.series:
        failed = cell.failures(name)
        row = _cold_row(cell, name, base) if cell.values(name, SPEED) else ("failed",) + ("",) * 8
        rows.append((PEERS[name].label, *row, f"{len(failed)} failed" if failed else ""))
    rows += [(PEERS[name].label, *("",) * 9, f"not measured: {reason}")
             for name, reason in absent.items()]
    return Grid(title, ("pipeline", "samples/s", f"x {base}" if base else "", "requests", "read",
                        "back", "server CPU s", "CPU s / million", "RL, %", "missing, repeated",
                        ""), rows, COLD_NOTE)


def _cold_row(cell: RecordsCell, name: str, base: str | None) -> tuple[str, ...]:
    lost = (_worst(cell, name, key) for key in ("missing", "repeated"))
    return (in_two_lines(cell.spread(name, SPEED)),
            in_two_lines(cell.ratio(name, base), ".2f") if base else "",
            *(in_two_lines(cell.counted(name, key), form) for key, form in COUNTED),
            f"{100 * cell.spread(name, 'rl').median:.0f}", ", ".join(lost))


def _scaled(spread: Spread, factor: float) -> Spread:
    return Spread(spread.median * factor, spread.low * factor, spread.high * factor, spread.n)


def _worst(cell: RecordsCell, name: str, key: str) -> str:
    return f"{cell.spread(name, key).high:.0f}"


def _targets(judged: Sequence[tuple], reached: str) -> Grid:
    rows = [(PEERS[one.target.series].label, str(ranks), one.target.what, str(one.target),
             in_two_lines(one.value, ".2f"), one.words()) for ranks, one in judged]
    return Grid(f"{TITLE}: {reached}", ("of", "ranks", "what", "target", "value", "met"), rows,
                "Medians of the pairs of a round, smallest to largest.")


def _picture(found: Sequence[RecordsCell], testbed: str) -> Picture:
    is_warm = testbed == WarmCache.name
    shown = [Bar(name, peer.label, COLOURS[number % len(COLOURS)],
                 "//" if number >= len(COLOURS) else None)
             for number, (name, peer) in enumerate(PEERS.items())]
    below = (Panel(MEMORY, "PSS of all processes, MiB", 1 / MIB) if is_warm else
             Panel("read_factor", "bytes read for a byte of a sample"))
    drawn = figure(found, shown, (Panel(SPEED, "samples/s of all ranks (logarithmic)"), below),
                   (11, 8), 5)
    speed = drawn.axes[0]
    speed.set_yscale("log")
    speed.set_ylim(bottom=1000 if is_warm else 10)
    speed.yaxis.set_major_formatter("{x:,.0f}")
    return Picture("io-records" if is_warm else f"io-records-{testbed}", TITLE,
                   f"Speed, on a logarithmic scale, and {'memory' if is_warm else 'reading'} of "
                   "input pipelines. Bars are medians, lines reach from the smallest to the "
                   "largest job.", drawn)
