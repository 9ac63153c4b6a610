"""The options of `horovod-opt bench nodes`."""

from __future__ import annotations

import argparse

from horovod_lab.bench.nodes.rows import LAYOUTS, WORKLOADS
from horovod_lab.bench.suite_options import add_length, add_output
from horovod_opt.arguments import some_of


def add(suites: argparse._SubParsersAction) -> None:
    parser = suites.add_parser(
        "nodes", help="training between nodes that this machine plays (as root): which targets "
                      "of topo are met",
        description="Makes virtual hosts, namespaces of Linux with a network of their own, and "
        "runs training steps and single allreduces between them in topo and in off, under MPI and "
        "Gloo, interleaved. Needs the rights of root, iproute2 and sshd. Measurements are added to "
        "OUTPUT/nodes.json: a benchmark that was interrupted goes on when it is started again. "
        "Exit status 2 if jobs failed, 130 if interrupted.")
    parser.add_argument("--only", type=some_of(WORKLOADS), default=list(WORKLOADS),
                        metavar="WORKLOADS", help=f"to run ({','.join(WORKLOADS)})")
    parser.add_argument("--layouts", type=some_of(LAYOUTS), default=list(LAYOUTS),
                        metavar="LAYOUTS", help="nodes x ranks of each, and @ Mbit/s "
                                                f"({','.join(LAYOUTS)})")
    add_length(parser, seconds=6.0, timeout=600.0)
    add_output(parser, "nodes.json and nodes.png")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from horovod_lab.bench.nodes import nodes_suite

    return nodes_suite.run(options)
