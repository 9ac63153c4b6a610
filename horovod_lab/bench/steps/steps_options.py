"""The options of `horovod-opt bench steps`."""

from __future__ import annotations

import argparse

from horovod_lab.bench.steps.kinds import KINDS, MODES
from horovod_lab.bench.suite_options import add_length, add_modes, add_output
from horovod_opt.arguments import positive, some_of


def add(suites: argparse._SubParsersAction) -> None:
    parser = suites.add_parser(
        "steps", help="kinds of training step: is topo the fastest for each, and which targets are "
                      "met",
        description="Runs small training steps of many kinds (sparse gradients, bfloat16, process "
        "sets, groups, ...) in each mode, interleaved, and shows how fast each mode is in relation "
        "to the fastest other than topo, whether steps still negotiate, and which targets are met. "
        "Measurements are added to OUTPUT/steps.json: a benchmark that was interrupted goes on "
        "when it is started again. Exit status 2 if jobs failed, 130 if interrupted.")
    parser.add_argument("--only", type=some_of(KINDS), default=list(KINDS), metavar="STEPS",
                        help=f"kinds of step to run ({','.join(KINDS)})")
    add_modes(parser, MODES, than="off and off+yield")
    parser.add_argument("--ranks", type=_ranks, nargs="+", default=[2, 4], metavar="N",
                        help="numbers of ranks (2 4)")
    add_length(parser, seconds=4.0, timeout=300.0)
    add_output(parser, "steps.json and steps.png")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from horovod_lab.bench.steps import steps_suite

    return steps_suite.run(options)


def _ranks(text: str) -> int:
    ranks = positive(text)
    if ranks < 2:
        raise argparse.ArgumentTypeError("one rank has nobody to communicate with: give at least 2")
    return ranks
