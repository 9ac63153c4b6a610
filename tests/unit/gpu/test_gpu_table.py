"""The table of a run on a GPU: its text, its JSON, and the exit status."""

from __future__ import annotations

import json

import pytest
from gpu_table import FAILED, NOT_RUN, PASSED, Row, Table, judged


def table(*outcomes: str) -> Table:
    return Table({"date": "2026-01-02", "cores": 16},
                 [Row("1", f"what {outcome}", "5 steps", outcome) for outcome in outcomes])


@pytest.mark.parametrize("outcomes, status", [
    ((PASSED,), 0), ((PASSED, NOT_RUN), 0), ((PASSED, FAILED), 1), ((FAILED,), 1),
    ((NOT_RUN,), 1), ((), 1)])
def test_exit_status(outcomes, status):
    assert table(*outcomes).status() == status


def test_text():
    assert table(PASSED, NOT_RUN).text().splitlines() == [
        "part  what          value",
        "1     what passed   5 steps  passed",
        "1     what not run  5 steps  not run",
    ]


@pytest.mark.parametrize("outcomes", [(PASSED,), (PASSED, FAILED)])
def test_json_has_the_machine_and_every_row(outcomes):
    document = json.loads(table(*outcomes).to_json())
    assert document["date"] == "2026-01-02"
    assert document["cores"] == 16
    assert document["passed"] == (FAILED not in outcomes)
    assert document["rows"] == [{"part": "1", "what": f"what {outcome}", "value": "5 steps",
                                 "outcome": outcome} for outcome in outcomes]


def test_what_is_judged():
    assert judged("2", "sums", 3, True) == Row("2", "sums", "3", PASSED)
    assert judged("2", "sums", "wrong", False) == Row("2", "sums", "wrong", FAILED)
