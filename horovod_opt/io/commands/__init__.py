"""The command `horovod-opt io`: what can be done with a data set before it is trained on."""

from __future__ import annotations

import argparse
from types import ModuleType

from horovod_opt.io.commands import index_command, order_command, verify_command


def add(commands: argparse._SubParsersAction, *more: ModuleType) -> None:
    """`more`: what measures, which has add() like the commands here."""
    parser = commands.add_parser(
        "io", help="index, verify, look at and measure the data sets of horovod_opt.io",
        description="Looks after data sets: TFRecord or tar files, LMDB, folders of files.")
    subcommands = parser.add_subparsers(dest="io_command", metavar="COMMAND", required=True)
    for command in (index_command, verify_command, order_command, *more):
        command.add(subcommands)
