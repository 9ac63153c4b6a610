"""The result of a run: a table of what was looked at, its value, and whether it passed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


@dataclass(frozen=True)
class Row:
    """`outcome`: PASSED, FAILED or NOT_RUN; of the last, `value` says why."""

    part: str
    what: str
    value: str
    outcome: str


def judge(part: str, what: str, value: object, passed: bool) -> Row:
    return Row(part, what, str(value), PASSED if passed else FAILED)


@dataclass
class Table:
    """`about`: the machine, the date and how it was run."""

    about: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.rows.append(row)

    def status(self) -> int:
        """The exit status: 0 if something has passed and nothing failed."""
        outcomes = {row.outcome for row in self.rows}
        return 0 if PASSED in outcomes and FAILED not in outcomes else 1

    def text(self) -> str:
        lines = [("part", "what", "value", "")]
        lines += [(row.part, row.what, row.value, row.outcome) for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*lines)]
        padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                  for line in lines)
        return "\n".join(padded)

    def to_json(self) -> str:
        return json.dumps({**self.about, "passed": self.status() == 0,
                           "rows": [asdict(row) for row in self.rows]}, indent=2)
