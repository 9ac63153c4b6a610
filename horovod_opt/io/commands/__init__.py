"""The command `horovod-opt io`: what can be done with a data set before it is trained on."""

from __future__ import annotations

import argparse
from types import ModuleType

from horovod_opt.io.commands import (
    drain_command,
    index_command,
    order_command,
    run_command,
    stage_command,
    verify_command,
)


def add(commands: argparse._SubParsersAction, *more: ModuleType) -> None:
    """`more`: what measures, which has add() like the commands here."""
    parser = commands.add_parser(
        "io", help="index, verify, stage, look at and measure data sets; drain checkpoints",
        description="Looks after data sets, which are TFRecord or tar files, LMDB or folders of "
        "files, and after checkpoints.")
    subcommands = parser.add_subparsers(dest="io_command", metavar="COMMAND", required=True)
    for command in (index_command, verify_command, order_command, stage_command, run_command,
                    drain_command, *more):
        command.add(subcommands)
