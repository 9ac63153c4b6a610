"""What became of the rows, kept in a file so that an interrupted run can go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from matrix_rows import OPENMPI, Row, Unusable, in_order
from outcomes import Run

from horovod_lab.measuring import documents
from horovod_lab.measuring.documents import DocumentError

KIND = "versions"
PASSED, FAILED = "passed", "failed"
NOT_INSTALLED, NOT_BUILT = "not installed", "not built"
# Of the machine, what rows of one file have in common.
ALIKE = ("cpu", "cores", "system", "python")


@dataclass(frozen=True)
class SuiteCounts:
    """The tests of a suite: errors of failed ones by name, numbers of skipped ones by reason; `cut`
    says how the suite ended if not as it should."""

    passed: int
    failed: dict[str, str]
    skipped: dict[str, int]
    cut: str = ""

    @classmethod
    def of(cls, run: Run, shortened: Callable[[str], str]) -> SuiteCounts:
        reasons = (shortened(outcome.why).removeprefix("Skipped: ")
                   for outcome in run.tests.values() if outcome.status == "skipped")
        failed = {test: shortened(outcome.why) for test, outcome in run.tests.items()
                  if outcome.status == "failed"}
        return cls(run.count()["passed"], failed, dict(Counter(reasons)), run.cut)

    def is_good(self) -> bool:
        """Some have passed, and none has failed."""
        return self.passed > 0 and not self.failed and not self.cut


@dataclass
class Record:
    """A row that has been tried. `ended`: PASSED, FAILED, NOT_INSTALLED or NOT_BUILT; `error`, of
    the last two, is the first one. `seconds`: of each step."""

    row: Row
    started: str = field(default_factory=documents.now)
    ended: str = NOT_INSTALLED
    error: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    suites: dict[str, SuiteCounts] = field(default_factory=dict)

    def passed(self) -> int:
        return sum(suite.passed for suite in self.suites.values())

    def failed(self) -> dict[tuple[str, str], str]:
        """By suite and test; a suite without a test that passed is one, too."""
        failures = {(name, test): why for name, suite in self.suites.items()
                    for test, why in suite.failed.items()}
        for name, suite in self.suites.items():
            if not suite.is_good() and not suite.failed:
                failures[name, ""] = suite.cut or "no test has passed"
        return failures

    def skipped(self) -> Counter[str]:
        return sum((Counter(suite.skipped) for suite in self.suites.values()), Counter())

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Record:
        suites = {name: SuiteCounts(**suite) for name, suite in document["suites"].items()}
        return cls(**{**document, "row": Row(**document["row"]), "suites": suites})


class Matrix:
    """All rows tried so far, in a file that is whole at any time."""

    def __init__(self, path: Path, program: str) -> None:
        """`program`: how the user started it, without arguments.

        Raises:
            Unusable: the file is something else, or of another machine or Python.
        """
        self._path = path
        self._begun = documents.new(KIND, [program])
        self._document = {**self._begun, "commands": [], "planned": [], "rows": {}}
        if path.exists():
            self.read_again()
        for what in ALIKE:
            before, now = self._document["machine"][what], self._begun["machine"][what]
            if before != now:
                raise Unusable(f"{path} has rows with {what} = {before}, not {now}; name another "
                               "folder")

    def read_again(self) -> None:
        """Another process has written the file. Raises Unusable."""
        try:
            self._document = documents.load(self._path, KIND)
        except DocumentError as error:
            raise Unusable(str(error)) from error

    def begin(self, planned: Iterable[Row]) -> None:
        """Keeps this command, and what there is to try."""
        commands = [*self._document["commands"], self._begun["command"]]
        self._document["commands"] = list(dict.fromkeys(commands))
        self._document["planned"] = [asdict(row) for row in planned]
        self.save(self._path)

    def has(self, row: Row) -> bool:
        return row.name in self._document["rows"]

    def add(self, record: Record) -> None:
        self._document["rows"][record.row.name] = asdict(record)
        self.save(self._path)

    def results(self) -> Results:
        return Results.of(self._document)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        documents.save(path, self._document)


@dataclass(frozen=True)
class Results:
    """What a file has: by row in the order of the plan, None for one that has not been tried."""

    machine: dict[str, Any]
    commands: list[str]
    rows: dict[Row, Record | None]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Results:
        records = {Row(**record["row"]): Record.from_json(record)
                   for record in document["rows"].values()}
        planned = [Row(**row) for row in document["planned"]]
        rows = sorted({*planned, *records}, key=Row.place)
        return cls(document["machine"], document["commands"],
                   {row: records.get(row) for row in rows})

    def records(self) -> list[Record]:
        return [record for record in self.rows.values() if record]


def read(path: Path) -> Results:
    """Raises DocumentError."""
    return Results.of(documents.load(path, KIND))


def bounds(records: Iterable[Record], framework: str) -> tuple[str, str] | None:
    """The first two numbers of the oldest and of the newest version that horovod-opt can be built
    with: both passed, and so did all between them that were tried. None: no version did."""
    ended = {record.row.version: record.ended for record in records
             if record.row.framework == framework and record.row.mpi == OPENMPI}
    supported: list[str] = []
    for version in reversed(in_order(ended)):
        if ended[version] != PASSED and supported:
            break
        if ended[version] == PASSED:
            supported.append(version)
    return (supported[-1], supported[0]) if supported else None
