"""The command `horovod-opt`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence

from horovod_opt import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="horovod-opt", description="Looks after an installation of horovod-opt."
    )
    parser.add_argument("--version", action="version", version=f"horovod-opt {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    doctor = commands.add_parser(
        "doctor",
        help="show versions, builds, cores and settings, and what is wrong with them",
        description="Shows versions, what was built, the MPI library, cores and settings, and what "
        "would be wrong with them in a job. Exit status 1 if there is a problem, 0 otherwise.",
    )
    doctor.add_argument(
        "-np",
        type=_positive,
        dest="ranks",
        metavar="N",
        help="ranks on this node (default: as many as the job this runs in has here, else 1)",
    )
    doctor.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    return _doctor(options.ranks, options.json)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_positive.__name__ = "positive number"  # argparse: "invalid positive number value: '0'"


def _doctor(ranks: int | None, as_json: bool) -> int:
    from rich.console import Console

    from horovod_opt import doctor, doctor_tables
    from horovod_opt.findings import examine

    with Console(stderr=True).status("Loading each framework once ..."):
        facts = doctor.gather(os.environ, ranks)
    findings = examine(facts)
    if as_json:
        report = {
            **dataclasses.asdict(facts),
            "findings": [dataclasses.asdict(finding) for finding in findings],
        }
        print(json.dumps(report, indent=2))
    else:
        doctor_tables.show(facts, findings, Console(highlight=False))
    return int(any(finding.problem for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
