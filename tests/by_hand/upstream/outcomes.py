"""What became of each test: from the ranks' lines to one outcome, and from modes to differences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

JOB = "(the job itself)"
# A test may have several outcomes, and has one on each rank: the last of these wins.
RANKING = ("skipped", "passed", "failed")


@dataclass(frozen=True)
class Outcome:
    """`status` is one of RANKING; `why` is the first line of the error, with its ranks."""

    status: str
    why: str = ""


@dataclass
class RankLog:
    """One rank's lines: the outcomes so far, the test that has none yet, if it came to the end."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    running: str = ""
    ended: bool = False

    @classmethod
    def read(cls, path: Path) -> RankLog:
        """Reads what rank.py wrote; a last line that is cut off does not count."""
        log = cls()
        for text in path.read_text().splitlines() if path.exists() else ():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                break
            log._add(line)
        return log

    def _add(self, line: Mapping) -> None:
        if "end" in line:
            self.ended, self.running = True, ""
        elif "outcome" not in line:
            self.running = line["test"]
        else:
            self._add_outcome(line["test"], Outcome(line["outcome"], line["why"]),
                              "subtest" in line)

    def _add_outcome(self, test: str, new: Outcome, subtest: bool) -> None:
        old = self.outcomes.get(test)
        if old is None or (RANKING.index(new.status) > RANKING.index(old.status)
                           and (subtest or new.status == "failed")):  # else its parts count
            self.outcomes[test] = new
        if self.running == test and not subtest:
            self.running = ""


@dataclass
class Run:
    """A suite in one mode. `cut` says how the job ended if not as it should, else it is empty."""

    tests: dict[str, Outcome]
    seconds: float = 0.0
    cut: str = ""
    tail: str = ""

    def count(self) -> Counter:
        return Counter(outcome.status for outcome in self.tests.values())

    def as_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping) -> Run:
        tests = {name: Outcome(**outcome) for name, outcome in document["tests"].items()}
        return cls(**{**document, "tests": tests})


def merge(ranks: list[RankLog], cut: str) -> dict[str, Outcome]:
    """One outcome for each test: failed if it failed on any rank or has no outcome on some."""
    tests = {}
    for test in dict.fromkeys(name for log in ranks for name in (*log.outcomes, log.running)):
        if test:
            tests[test] = _merge_test([_on_rank(log, test, cut) for log in ranks])
    if (cut and not any(log.running for log in ranks)) or not tests:
        tests[JOB] = Outcome("failed", cut or "no test ran")
    return tests


def _on_rank(log: RankLog, test: str, cut: str) -> Outcome:
    if test == log.running:
        return Outcome("failed", cut)
    return log.outcomes.get(test) or Outcome("failed", "no outcome")


def _merge_test(outcomes: list[Outcome]) -> Outcome:
    worst = max(outcomes, key=lambda outcome: RANKING.index(outcome.status))
    where = [rank for rank, outcome in enumerate(outcomes) if outcome.status == worst.status]
    if len(where) == len(outcomes):
        return worst
    ranks = ", ".join(map(str, where))
    return Outcome(worst.status, f"rank {ranks}: {worst.why}" if worst.why else "")


Runs = Mapping[str, Mapping[str, Run]]  # by mode, then by suite


@dataclass(frozen=True)
class Failure:
    suite: str
    test: str
    mode: str
    why: str


def regressions(runs: Runs, references: Iterable[str]) -> list[Failure]:
    """What passes in a reference and does not in a mode, where it may have been skipped as well.

    A mode that is itself a reference is compared with the references before it.
    """
    failures, references = [], list(references)
    for mode, suites in runs.items():
        before = references[:references.index(mode)] if mode in references else references
        for suite, run in suites.items():
            failures += _worse(suite, mode, run, [runs[name].get(suite) for name in before])
    return failures


def _worse(suite: str, mode: str, run: Run, references: list[Run | None]) -> list[Failure]:
    passed = set().union(*(_passed(reference) for reference in references if reference))
    failures = [Failure(suite, test, mode, f"{outcome.status}: {outcome.why}")
                for test, outcome in run.tests.items()
                if test in passed and outcome.status != "passed"]
    missing = len(passed - run.tests.keys() - {JOB})
    if missing:
        why = f"{missing} tests that pass elsewhere did not run: {run.cut or 'not collected'}"
        failures.append(Failure(suite, "(other tests)", mode, why))
    return failures


def _passed(run: Run) -> set[str]:
    tests = {test for test, outcome in run.tests.items() if outcome.status == "passed"}
    return tests if JOB in run.tests else {*tests, JOB}


def everywhere(runs: Runs) -> list[Failure]:
    """What fails in every mode that ran the suite, with the error in the last of them."""
    failures = []
    suites = dict.fromkeys(suite for by_suite in runs.values() for suite in by_suite)
    for suite in suites:
        columns = [(mode, by_suite[suite]) for mode, by_suite in runs.items() if suite in by_suite]
        mode, last = columns[-1]
        for test, outcome in last.tests.items():
            others = [run.tests.get(test) for _, run in columns]
            if all(peer is not None and peer.status == "failed" for peer in others):
                failures.append(Failure(suite, test, mode, outcome.why))
    return failures
