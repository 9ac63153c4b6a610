"""The command `horovod-opt io drain`: what is left in a fast folder goes to the slow one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from horovod_opt.arguments import positive
from horovod_opt.io.progress import Meter, show_bar

NAME = "horovod-opt io drain"


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "drain", help="copy the checkpoints that a job has left in its fast folder",
        description="Does what hio.BurstBuffer's thread does, for a job that has ended: each "
        "version in FAST is copied to SLOW, compared and synced, and then removed from FAST. On "
        "each node that has a FAST. A drain that was interrupted goes on when it is started "
        "again. Exit status 0 if all is in SLOW, 1 if something is not.")
    parser.add_argument("fast", type=Path, metavar="FAST", help="the job's fast folder")
    parser.add_argument("slow", type=Path, metavar="SLOW", help="its slow one")
    parser.add_argument("--keep", type=positive, metavar="N", default=2,
                        help="how many complete versions SLOW keeps (%(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from horovod_opt.io.checkpoints.drain_all import drain_all
    from horovod_opt.io.errors import DataError

    try:
        with show_bar("Copying") as progress:
            done = drain_all(options.fast, options.slow, options.keep,
                             lambda total: Meter(progress, total))
    except (DataError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    for line in done.damaged:
        print(f"{NAME}: {line}", file=sys.stderr)
    print(f"{done.parts} parts copied, {done.bytes} bytes; {options.slow} has versions "
          f"{', '.join(map(str, done.complete)) or 'none'}")
    return int(bool(done.damaged))
