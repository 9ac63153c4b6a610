"""The table of the versions: in a terminal, and as a page of the docs."""

from __future__ import annotations

import textwrap
from datetime import datetime

from matrix_results import Record, Results, bounds
from matrix_rows import DEBIAN, MPICH, NAMES, OPENMPI, Row
from quick_tests import SUITES

from horovod_lab.measuring.present import Grid, markdown_table

MPI_NAMES = {OPENMPI: "Open MPI", MPICH: "MPICH", DEBIAN: "Debian's Open MPI"}
COLUMNS = ("framework", "Keras", "NumPy", "MPI", "built in", "passed / failed / skipped", "")

# Around what is written into a page.
BEGIN, END = "<!-- Written by tests/by_hand/matrix/run --record. -->\n", "<!-- Until here. -->\n"


def grid(results: Results) -> Grid:
    rows = [_cells(row, record) for row, record in results.rows.items()]
    return Grid("Versions", COLUMNS, rows)


def _cells(row: Row, record: Record | None) -> list[str]:
    framework = f"{NAMES[row.framework]} {row.version}"
    if record is None:
        return [framework, "", "", MPI_NAMES[row.mpi], "", "", "not tried"]
    versions = record.versions
    exact = versions.get("tensorflow-cpu") or versions.get("torch")
    mpi = versions.get("openmpi") or versions.get("mpich") or ""
    counts = f"{record.passed()} / {len(record.failed())} / {record.skipped().total()}"
    built = f"{record.seconds['build']:.0f} s" if record.suites else ""
    return [f"{NAMES[row.framework]} {exact}" if exact else framework, versions.get("keras", ""),
            versions.get("numpy", ""), f"{MPI_NAMES[row.mpi]} {mpi}".strip(), built,
            counts if record.suites else "", record.ended]


def put_into(page: str, results: Results) -> str:
    """The page with these results in the place of former ones."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    return "".join((head, begin, text(results), end, tail))


def text(results: Results) -> str:
    """As Markdown: the table, where it is from, what failed, was skipped, and was run."""
    shown = grid(results)
    sections = (markdown_table(shown.columns, shown.rows), [_bounds(results)], [_where(results)],
                [f"    {command}" for command in results.commands],
                _section("What failed", _failures(results)),
                _section("What was skipped", _skips(results)),
                *(_section(f"The quick tests for {name}", _suites(framework))
                  for framework, name in NAMES.items()))
    return "\n" + "".join("\n".join((*lines, "", "")) for lines in sections if lines)


def _bounds(results: Results) -> str:
    sentences = []
    tried = {record.row.framework for record in results.records()}
    for framework, name in NAMES.items():
        if framework not in tried:
            sentences.append(f"No version of {name} has been tried this way yet.")
            continue
        limits = bounds(results.records(), framework)
        sentences.append(f"{name} {limits[0]} to {limits[1]} can be built with." if limits
                         else f"No version of {name} has passed.")
    return " ".join(sentences)


def _where(results: Results) -> str:
    machine = results.machine
    days = sorted({datetime.fromisoformat(record.started).date().isoformat()
                   for record in results.records()})
    if not days:
        return "Nothing has been recorded yet."
    return textwrap.fill(
        f"Recorded on {', '.join(days)} on {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['system']}, Linux {machine['kernel']}, Python {machine['python']}:", 112)


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "", *lines] if lines else []


def _failures(results: Results) -> list[str]:
    lines = []
    for record in results.records():
        if record.error:
            lines.append(f"- {record.row.name}: {record.ended}: {_code(record.error)}")
        lines += [f"- {record.row.name}, {suite}{f', {_code(test)}' if test else ''}: {_code(why)}"
                  for (suite, test), why in record.failed().items()]
    return lines


def _skips(results: Results) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for record in results.records():
        for reason, number in record.skipped().items():
            reasons.setdefault(reason, []).append(f"{record.row.name} ({number})")
    rows = [(reason.replace("|", "\\|"), ", ".join(where)) for reason, where in reasons.items()]
    return markdown_table(("reason", "rows, and how many tests"), rows) if rows else []


def _suites(framework: str) -> list[str]:
    rows = [(suite.name, f"`tests/{suite.file}`", f"`{suite.selected}`" if suite.selected else "")
            for suite in SUITES[framework]]
    return markdown_table(("suite", "file", "`-k`"), rows)


def _code(text: str) -> str:
    return "`" + text.replace("`", "'") + "`"
