"""The table of a stand whose storage is slow: what each pipeline asked of it."""

from __future__ import annotations

from horovod_lab.io.peers import PEERS
from horovod_lab.io.suites.records.results import RecordsCell
from horovod_lab.io.suites.records.targets import SPEED
from horovod_lab.measuring.present import Grid
from horovod_lab.measuring.verdict import in_two_lines

NOTE = ("Samples of all ranks in the first seconds of a cold epoch. Read: bytes of the storage for "
        "each byte of a sample. Back: requests that begin before the last one of the same file. "
        "RL: 100 % for a complete shuffle.")
# Key of a measurement, and the format of its values.
COUNTED = (("requests", ""), ("read_factor", ".2f"), ("inversions", ".0f"),
           ("server_cpu_seconds", ".2f"), ("cpu_seconds_per_million", ""))


def measured(title: str, cell: RecordsCell, absent: dict[str, str]) -> Grid:
    base = cell.base()
    rows = []
    for name in cell.series:
        failed = cell.failures(name)
        row = _row(cell, name, base) if cell.values(name, SPEED) else ("failed",) + ("",) * 8
        rows.append((PEERS[name].label, *row, f"{len(failed)} failed" if failed else ""))
    rows += [(PEERS[name].label, *("",) * 9, f"not measured: {reason}")
             for name, reason in absent.items()]
    return Grid(title, ("pipeline", "samples/s", f"x {base}" if base else "", "requests", "read",
                        "back", "server CPU s", "CPU s / million", "RL, %", "missing, repeated",
                        ""), rows, NOTE)


def _row(cell: RecordsCell, name: str, base: str | None) -> tuple[str, ...]:
    lost = (f"{cell.spread(name, key).high:.0f}" for key in ("missing", "repeated"))
    return (in_two_lines(cell.spread(name, SPEED)),
            in_two_lines(cell.ratio(name, base), ".2f") if base else "",
            *(in_two_lines(cell.counted(name, key), form) for key, form in COUNTED),
            f"{100 * cell.spread(name, 'rl').median:.0f}", ", ".join(lost))
