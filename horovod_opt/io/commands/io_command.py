"""The command `horovod-opt io`: what can be done with a data set before it is trained on."""

from __future__ import annotations

import argparse

from horovod_opt.io.commands import bench_command, index_command, order_command, verify_command


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "io", help="index, verify, look at and measure the data sets of horovod_opt.io",
        description="Looks after data sets: TFRecord or tar files, LMDB, folders of files.")
    subcommands = parser.add_subparsers(dest="io_command", metavar="COMMAND", required=True)
    index_command.add(subcommands)
    verify_command.add(subcommands)
    order_command.add(subcommands)
    bench_command.add(subcommands)
