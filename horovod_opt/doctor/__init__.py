"""The command `horovod-opt doctor`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os

from horovod_opt.arguments import positive


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "doctor",
        help="show versions, builds, cores and settings, and what is wrong with them; or what a "
        "job that hangs waits for",
        description="Shows versions, what was built, the MPI library, cores and settings, and what "
        "would be wrong with them in a job. With --pid, what the ranks of a job on this host wait "
        "for. Exit status 1 if there is a problem, 0 otherwise.",
    )
    parser.add_argument(
        "-np",
        type=positive,
        dest="ranks",
        metavar="N",
        help="ranks on this node (default: those of the job that this runs in, else 1)",
    )
    parser.add_argument(
        "--pid",
        type=positive,
        nargs="+",
        dest="pids",
        metavar="N",
        help="processes of a job that hangs, ranks or its launcher: all its ranks on this host "
        "are asked who waits for whom",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.pids:
        from horovod_opt.doctor import hang

        return hang.run(options.pids, options.json)
    from rich.console import Console

    from horovod_opt.doctor import inspection, tables
    from horovod_opt.doctor.findings import examine

    with Console(stderr=True).status("Loading each framework once ..."):
        facts = inspection.gather(os.environ, options.ranks)
    findings = examine(facts)
    if options.json:
        report = {
            **dataclasses.asdict(facts),
            "findings": [dataclasses.asdict(finding) for finding in findings],
        }
        print(json.dumps(report, indent=2))
    else:
        tables.show(facts, findings, Console(highlight=False))
    return int(any(finding.problem for finding in findings))
