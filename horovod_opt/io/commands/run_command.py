"""The command `horovod-opt io run`: a program sees a pack in the place of a folder."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from horovod_opt.arguments import positive
from horovod_opt.io.commands.exit_status import exit_status
from horovod_opt.io.job.launcher import job_of_launcher, nodes_of_launcher

NAME = "horovod-opt io run"


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "run", help="start a program that sees a pack's files below a folder",
        usage="horovod-opt io run --pack OUT --at DIR [options] -- PROGRAM [ARGUMENT ...]",
        description="Starts PROGRAM so that it sees the files of a pack, which horovod-opt pack "
        "has made, below the folder DIR, read-only but for --outputs. It becomes PROGRAM: with its "
        "process, signals and exit status. A library that is loaded before libc answers; what "
        "passes it by gets the real files below DIR, if there is such a folder. Exit status 1 for "
        "a pack that is not all there, 2 for arguments and programs that cannot be used.")
    parser.add_argument("--pack", type=Path, required=True, metavar="OUT",
                        help="the pack's folder, or where horovod-opt io stage has brought it")
    parser.add_argument("--at", required=True, metavar="DIR",
                        help="the folder that the program opens; it need not exist")
    parser.add_argument("--meet", type=Path, metavar="FOLDER",
                        help="a folder that all nodes see: tars that are not on this node then "
                        "come from those that have them")
    parser.add_argument("--nodes", type=positive, metavar="N",
                        help="how many nodes meet (by the launcher: horovodrun, Slurm, mpirun)")
    parser.add_argument("--outputs", type=Path, metavar="FOLDER",
                        help="what the program writes below DIR comes to FOLDER, each file when it "
                        "is complete; without it, writing is refused")
    parser.add_argument("--durable", action="store_true",
                        help="what is written is synced before it has its name, and close() "
                        "returns then")
    parser.add_argument("--counters", type=Path, metavar="FILE",
                        help="gets, as JSON, what this node's programs did, when the last of them "
                        "has ended")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    return exit_status(NAME, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    from horovod_opt.io.errors import InputError
    from horovod_opt.io.overlay import launch
    from horovod_opt.io.overlay.outputs import Destination
    from horovod_opt.io.overlay.peers import Place

    command = options.command[options.command[:1] == ["--"]:]
    if not command:
        raise InputError("no program; remedy: its name behind --")
    if options.nodes and options.meet is None:
        raise InputError("--nodes without --meet; remedy: a folder that all nodes see")
    place = Place()
    if options.meet is not None:
        place = Place(options.nodes or nodes_of_launcher(os.environ), options.meet.absolute(),
                      job=job_of_launcher(os.environ))
    if options.durable and options.outputs is None:
        raise InputError("--durable without --outputs; remedy: a folder for what is written")
    to = options.outputs and Destination(options.outputs.absolute(), options.durable)
    launch.run(options.pack, options.at, place, to, options.counters, command)
