"""The table of outcomes, and the lists of tests below it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from outcomes import Failure, Run, Runs
from rich.console import Console
from rich.table import Table
from rich.text import Text


def cell(run: Run | None) -> Text:
    """passed / failed / skipped; `!` marks a job that was cut short."""
    if run is None:
        return Text("-")
    count = run.count()
    text = f"{count['passed']} / {count['failed']} / {count['skipped']}{' !' if run.cut else ''}"
    return Text(text, style="red" if count["failed"] else "green")


def table(runs: Runs) -> Table:
    result = Table("suite", title="passed / failed / skipped")
    for mode in runs:
        result.add_column(mode, justify="right")
    for suite in dict.fromkeys(suite for by_suite in runs.values() for suite in by_suite):
        result.add_row(suite, *(cell(by_suite.get(suite)) for by_suite in runs.values()))
    return result


def show(console: Console, runs: Runs, worse: list[Failure], everywhere: list[Failure]) -> None:
    console.print(table(runs))
    if any(run.cut for by_suite in runs.values() for run in by_suite.values()):
        console.print("! did not end by itself, or not as it should")
    _list(console, "Pass in a reference, and do not pass here:", worse, with_mode=True)
    _list(console, "Fail everywhere:", everywhere, with_mode=False)


def _list(console: Console, title: str, failures: Iterable[Failure], with_mode: bool) -> None:
    for suite, group in groupby(failures, key=lambda failure: failure.suite):
        if title:
            console.print(f"\n{title}")
            title = ""
        console.print(Text(suite, style="bold"))
        for failure in group:
            where = f" [{failure.mode}]" if with_mode else ""
            console.print(Text(f"  {failure.test}{where}"), soft_wrap=True)
            console.print(Text(f"      {failure.why}", style="dim"), soft_wrap=True)
