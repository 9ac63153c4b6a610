"""The tables and the picture of the suite records, from its JSON alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
SHUFFLE = ("RL, %", "of a rank, %", "classes, %")
SHUFFLE_NOTE = ("RL: 100 % for a complete shuffle; of a rank: that of its own samples. Classes in "
                "a rank's batch, of those of independent draws, if the data was sorted by class.")
COLD_NOTE = ("Samples of all ranks in the first seconds of a cold epoch. Read: bytes of the "
             "storage for each byte of a sample. Back: requests that begin before the last one of "
             f"the same file. {SHUFFLE_NOTE}")
# Key of a measurement, and the format of its values.
COUNTED = (("requests", ""), ("read_factor", ".2f"), ("inversions", ".0f"),
           ("server_cpu_seconds", ".2f"), ("cpu_seconds_per_million", ""))


def section(document: dict[str, Any], targets: bool) -> Section:
    cells = list(RecordsCell.by_ranks(document))
    judgements = list(verdicts(document))
    met = sum(verdict.met is True for _, verdict in judgements)
    score = f"{met} of {len(judgements)} targets met"
    settings, absent = document["settings"], document["not_measured"]
    is_warm = settings["stand"] == WarmCache.name
    where = "out of the page cache" if is_warm else (
        f"of a cold epoch on stand {settings['stand']}")
    grids = [_grid(cell, absent) if is_warm else
             _cold_grid(f"{TITLE}, stand {settings['stand']}: {cell.ranks} ranks, "
                                    f"nodes: {settings['nodes']}", cell, absent)
             for cell in cells]
    if targets:
        grids.append(_target_grid(judgements, score))
    has_values = [cell for cell in cells if cell.base()]
    return Section(TITLE, f"Records {where} through several pipelines: {score}.",
                   grids, [_picture(has_values, settings["stand"])] if has_values else [])


def _grid(cell: RecordsCell, absent: dict[str, str]) -> Grid:
    base = cell.base()
    rows = []
    for name in cell.series:
        failures = cell.failures(name)
        rows.append((PEERS[name].label, *(_row(cell, name, base) if cell.values(name, SPEED)
                                          else ("failed",) + ("",) * 9),
                     f"{len(failures)} failed" if failures else ""))
    rows += [(PEERS[name].label, *("",) * 10, f"not measured: {reason}")
             for name, reason in absent.items()]
    return Grid(f"{TITLE}: {cell.ranks} ranks",
                ("pipeline", "samples/s", f"x {base}" if base else "", "CPU s / million",
                 "PSS, MiB", "of it files", "processes", *SHUFFLE, "missing, repeated", ""), rows,
                f"Samples of all ranks. Medians, smallest to largest job. {SHUFFLE_NOTE}")


def _row(cell: RecordsCell, name: str, base: str | None) -> tuple[str, ...]:
    lost = (_worst(cell, name, key) for key in ("missing", "repeated"))
    return (in_two_lines(cell.spread(name, SPEED)),
            in_two_lines(cell.ratio(name, base), ".2f") if base else "",
            in_two_lines(cell.spread(name, "cpu_seconds_per_million")),
            in_two_lines(_scale(cell.spread(name, MEMORY), 1 / MIB)),
            f"{cell.spread(name, 'pss_file_bytes').median / MIB:.0f}",
            f"{cell.spread(name, 'processes').median:.0f}",
            *_shuffle(cell, name), ", ".join(lost))


def _cold_grid(title: str, cell: RecordsCell, absent: dict[str, str]) -> Grid:
    """Of a testbed whose storage is slow: what each pipeline asked of it."""
    base = cell.base()
    rows = []
    for name in cell.series:
        failures = cell.failures(name)
        row = _cold_row(cell, name, base) if cell.values(name, SPEED) else ("failed",) + ("",) * 10
        rows.append((PEERS[name].label, *row, f"{len(failures)} failed" if failures else ""))
    rows += [(PEERS[name].label, *("",) * 11, f"not measured: {reason}")
             for name, reason in absent.items()]
    return Grid(title, ("pipeline", "samples/s", f"x {base}" if base else "", "requests", "read",
                        "back", "server CPU s", "CPU s / million", *SHUFFLE,
                        "missing, repeated", ""), rows, COLD_NOTE)


def _cold_row(cell: RecordsCell, name: str, base: str | None) -> tuple[str, ...]:
    lost = (_worst(cell, name, key) for key in ("missing", "repeated"))
    return (in_two_lines(cell.spread(name, SPEED)),
            in_two_lines(cell.ratio(name, base), ".2f") if base else "",
            *(in_two_lines(cell.storage_spread(name, key), form) for key, form in COUNTED),
            *_shuffle(cell, name), ", ".join(lost))


def _shuffle(cell: RecordsCell, name: str) -> Iterator[str]:
    """What older files do not have stays empty."""
    for key in ("rl", "rank_rl", "rank_classes"):
        spread = cell.storage_spread(name, key)
        yield "" if spread is None else f"{100 * spread.median:.0f}"


def _scale(spread: Spread, factor: float) -> Spread:
    return Spread(spread.median * factor, spread.low * factor, spread.high * factor, spread.n)


def _worst(cell: RecordsCell, name: str, key: str) -> str:
    return f"{cell.spread(name, key).high:.0f}"


def _target_grid(judgements: Sequence[tuple], score: str) -> Grid:
    rows = [(PEERS[verdict.target.series].label, str(ranks), verdict.target.quantity,
             str(verdict.target), in_two_lines(verdict.value, ".2f"), verdict.words())
            for ranks, verdict in judgements]
    return Grid(f"{TITLE}: {score}", ("of", "ranks", "what", "target", "value", "met"), rows,
                "Medians of the pairs of a round, smallest to largest.")


def _picture(cells: Sequence[RecordsCell], testbed: str) -> Picture:
    is_warm = testbed == WarmCache.name
    bars = [Bar(name, peer.label, COLOURS[number % len(COLOURS)],
                "//" if number >= len(COLOURS) else None)
            for number, (name, peer) in enumerate(PEERS.items())]
    below = (Panel(MEMORY, "PSS of all processes, MiB", 1 / MIB) if is_warm else
             Panel("read_factor", "bytes read for a byte of a sample"))
    chart = figure(cells, bars, (Panel(SPEED, "samples/s of all ranks (logarithmic)"), below),
                   (11, 8), 5)
    speed = chart.axes[0]
    speed.set_yscale("log")
    speed.set_ylim(bottom=1000 if is_warm else 10)
    speed.yaxis.set_major_formatter("{x:,.0f}")
    return Picture("io-records" if is_warm else f"io-records-{testbed}", TITLE,
                   f"Speed, on a logarithmic scale, and {'memory' if is_warm else 'reading'} of "
                   "input pipelines. Bars are medians, lines reach from the smallest to the "
                   "largest job.", chart)
