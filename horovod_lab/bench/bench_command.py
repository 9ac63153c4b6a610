"""The command `horovod-opt bench`: one command, six suites."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from horovod_lab.bench.c10d import c10d_options
from horovod_lab.bench.nodes import nodes_options
from horovod_lab.bench.overhead import overhead_options
from horovod_lab.bench.sizes import sizes_options
from horovod_lab.bench.steps import steps_options
from horovod_lab.bench.training import training_options

SUITES = {"training": training_options, "overhead": overhead_options, "steps": steps_options,
          "nodes": nodes_options, "sizes": sizes_options, "c10d": c10d_options}
DEFAULT = "training"


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "bench", help="measure what the modes bring and cost, on this machine or these hosts",
        usage="%(prog)s [-h] [training] [options]\n       %(prog)s overhead [options]\n"
              "       %(prog)s steps [options]\n       %(prog)s nodes [options]\n"
              "       %(prog)s sizes [options]\n       %(prog)s c10d [options]",
        description="Measures the modes beside off and no communication, in six suites. Without "
        f"the name of one it is {DEFAULT}, whose options may follow at once.",
        epilog=f"horovod-opt bench {DEFAULT} --help shows the options of that suite.")
    suites = parser.add_subparsers(
        dest="suite", metavar="SUITE", required=True, prog=parser.prog)
    for suite in SUITES.values():
        suite.add(suites)


def with_suite(arguments: Sequence[str]) -> list[str]:
    """The arguments of `horovod-opt`, with the suite of `bench` also where the user left it out."""
    command, rest = list(arguments[:1]), list(arguments[1:])
    if command == ["bench"] and rest[:1] not in ([name] for name in (*SUITES, "-h", "--help")):
        return [*command, DEFAULT, *rest]
    return [*command, *rest]
