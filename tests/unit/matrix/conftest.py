"""Results of rows, as tests/by_hand/matrix/run keeps them."""

from __future__ import annotations

import pytest
from matrix_results import FAILED, PASSED, Counted, Record
from matrix_rows import Row


@pytest.fixture
def make_record():
    """A row that has passed, or one that ended otherwise."""

    def make(framework: str, version: str, ended: str = PASSED, **fields: object) -> Record:
        record = Record(Row(framework, version), ended=ended, **fields)
        if ended in (PASSED, FAILED):
            record.seconds = {"install": 30.0, "build": 200.0, "test": 100.0}
            wrong = {"test_sum": "wrong"} if ended == FAILED else {}
            record.suites = {"operations": Counted(3, wrong, {"no GPU": 2})}
        return record

    return make
