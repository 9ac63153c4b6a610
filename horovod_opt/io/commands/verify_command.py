"""The command `horovod-opt io verify`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from horovod_opt.io.commands.index_command import PATTERN, data_pattern
from horovod_opt.io.progress import show_bar

NAME = "horovod-opt io verify"


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "verify", help="read a whole data set and compare it with its index",
        description="Reads everything, compares each record with the checksum in the index, and "
        "lists what is wrong. Exit status 0 if nothing is, 1 otherwise.")
    parser.add_argument("patterns", nargs="+", metavar="PATTERN", help=PATTERN)
    parser.add_argument("--index", type=Path, metavar="FILE",
                        help="the index, if it is kept elsewhere: --output of io index")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from horovod_opt.io.errors import DataError
    from horovod_opt.io.index import load
    from horovod_opt.io.index.verification import verify

    try:
        index = load(data_pattern(options), options.index)
        with show_bar("Verifying") as progress:
            wrong = verify(index, progress)
    except DataError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    for line in wrong:
        print(line)
    if index.crc is None:
        print(f"{NAME}: {index.place} has no checksums: all records can be read, or are listed, "
              "but nothing tells whether they are right; remedy: horovod-opt io index",
              file=sys.stderr)
    print(f"{index.samples} samples in {len(index.files)} files read, {len(wrong)} errors")
    return int(bool(wrong))
