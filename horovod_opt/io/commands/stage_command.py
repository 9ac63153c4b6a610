"""The command `horovod-opt io stage`: a pack comes to the nodes' disks."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from horovod_opt.arguments import not_negative, positive
from horovod_opt.io.commands.exit_status import exit_status
from horovod_opt.io.progress import show_bar

TYPE_CHECKING = False  # the command starts without numpy
if TYPE_CHECKING:
    from horovod_opt.io.stage.staging import Share

NAME = "horovod-opt io stage"


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "stage", help="bring a pack to the nodes' own disks, each tar to some nodes or to all",
        description="Brings tars of a pack, which horovod-opt pack has made, to the folder DIR of "
        "this node, and compares them with their checksums. On each node once, as with srun "
        "--ntasks-per-node=1: of N nodes, tar k goes to node k mod N and the R - 1 behind it. What "
        "was interrupted goes on when it is started again. Exit status 0 if all is there, 1 if "
        "not, 2 if the arguments cannot be used.")
    parser.add_argument("pack", nargs="?", metavar="OUT",
                        help="the pack's folder, or its URL: https://, s3://, gs://, or what else "
                        "fsspec can open")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR",
                        help="a folder of the node, or in its memory (/dev/shm)")
    parser.add_argument("--replicas", default="1", metavar="R",
                        help="how many nodes have each tar, or: all (%(default)s)")
    parser.add_argument("--replicate", action="append", default=[], metavar="FOLDER",
                        help="a folder of the pack, such as val/, whose files each node gets as "
                        "files, below DIR; may be repeated")
    parser.add_argument("--nodes", type=positive, metavar="N",
                        help="how many there are (by the launcher: Slurm, or mpirun with a process "
                        "a node; else 1)")
    parser.add_argument("--node", type=not_negative, metavar="K",
                        help="which this is, from 0 on (by the launcher)")
    parser.add_argument("--threads", type=positive, default=8, metavar="N",
                        help="that fetch a tar each (%(default)s)")
    parser.add_argument("--remove", action="store_true",
                        help="remove what was staged to DIR, and nothing else")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    return exit_status(NAME, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    from horovod_opt.io.errors import InputError
    from horovod_opt.io.memory_limit import show
    from horovod_opt.io.stage.source import open_source
    from horovod_opt.io.stage.staging import remove, stage

    if options.remove == bool(options.pack):
        raise InputError("give either a pack, or --remove")
    if options.remove:
        print(f"{show(remove(options.to))} removed from {options.to}")
        return 0
    share = _share(options)
    source = open_source(options.pack)
    with show_bar("Staging") as progress:
        done = stage(source, options.to, share, options.replicate, options.threads, progress)
    files = f", {done.files} files written" if options.replicate else ""
    print(f"Node {share.node} of {share.nodes}: {len(done.parts)} of {len(done.index.names)} tars "
          f"in {options.to}, {show(done.fetched)} fetched{files}")
    return 0


def _share(options: argparse.Namespace) -> Share:
    from horovod_opt.io.errors import InputError
    from horovod_opt.io.stage.staging import Share

    if (options.node is None) != (options.nodes is None):
        raise InputError("--node and --nodes belong together; remedy: give both, or neither")
    node, nodes = (options.node, options.nodes) if options.nodes else node_of_launcher(os.environ)
    if node >= nodes:
        raise InputError(f"--node {node} of --nodes {nodes}; remedy: a number from 0 to "
                         f"{nodes - 1}")
    text = options.replicas
    if text != "all" and (not text.isdecimal() or not 1 <= int(text) <= nodes):
        raise InputError(f"--replicas {text}, with {nodes} nodes; remedy: a number from 1 to "
                         f"{nodes}, or all")
    return Share(node, nodes, nodes if text == "all" else int(text))


def node_of_launcher(environment: os._Environ | dict[str, str]) -> tuple[int, int]:
    """This node's number and how many there are, where a launcher says so of each process."""
    for node, nodes, local_size in (
            ("SLURM_NODEID", "SLURM_STEP_NUM_NODES", None),
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
            ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS")):
        if node in environment and nodes in environment and (
                local_size is None or environment.get(local_size) == "1"):
            return int(environment[node]), int(environment[nodes])
    return 0, 1
