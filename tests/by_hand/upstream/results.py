"""Results of the suites so far, kept in a file so that an interrupted run can go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from environment import Unusable
from outcomes import Run


class Results:
    """All runs so far, in a file that is whole at any time.

    `about` says how they were made. Runs in the file that were made otherwise are dropped, or
    refused with `resume`. `kind` is their class.
    """

    def __init__(self, path: Path, about: dict, resume: bool, kind: type = Run) -> None:
        self.path, self.about, self.kind, self.runs = path, about, kind, {}
        if path.exists():
            try:
                self._load(about)
            except Unusable:
                if resume:
                    raise

    def _load(self, about: dict) -> None:
        try:
            document = json.loads(self.path.read_text())
            before = document["about"]
            runs = {mode: {suite: self.kind.from_json(run) for suite, run in by_suite.items()}
                    for mode, by_suite in document["runs"].items()}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Unusable(f"{self.path} holds no results of the suites; name another") from error
        for key, value in about.items():
            if before.get(key, value) != value:
                raise Unusable(f"{self.path} has results with {key} = {before[key]}, not {value}; "
                               "name another, or leave --resume out")
        self.about, self.runs = before | about, runs

    def has(self, mode: str, suite: str) -> bool:
        return suite in self.runs.get(mode, {})

    def add(self, mode: str, suite: str, run: Any) -> None:
        self.runs.setdefault(mode, {})[suite] = run
        document = {"about": self.about, "runs": {
            mode: {suite: run.as_json() for suite, run in by_suite.items()}
            for mode, by_suite in self.runs.items()}}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(document, indent=1) + "\n")
        temporary.replace(self.path)

    def select(self, modes: list[str], suites: list[str]) -> dict[str, dict[str, Any]]:
        return {mode: {name: self.runs[mode][name] for name in suites if self.has(mode, name)}
                for mode in modes}
