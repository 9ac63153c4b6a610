"""Starts jobs in each way of docs/use/clusters.md, and shows how they ended.

Needs root, Debian, and its package index where Slurm is not installed. Everything happens on a
machine of its own made of Linux namespaces; nothing stays, also if this is killed. Exit status 1 if
something failed, 2 if nothing can be run."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import own_machine
from cluster_trials import LOSES_A_NODE, TRIALS, Result
from launch_methods import ELASTIC, SLURM_NODES, WAYS, WORKERS, Place
from own_machine import NoMachine
from slurm_daemons import PACKAGES, Slurm

from horovod_lab.measuring.virtual_hosts import NoHosts, VirtualHosts

MODES = ("off", "topo")


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/ecosystem/clusters/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, known, what in (("ways", WAYS, "to start ranks"), ("trials", TRIALS, "of each way"),
                              ("modes", MODES, "of each trial")):
        parser.add_argument(f"--{name}", nargs="+", choices=known, default=list(known),
                            metavar=name[:-1].upper(), help=f"{what}: some of {', '.join(known)}")
    parser.add_argument("--ranks", type=int, default=4, help="of each job (%(default)s)")
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 2),
                        help="of each job of Slurm and mpirun; virtual ones (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER",
                        help="what jobs and daemons wrote is copied to this new folder")
    arguments = parser.parse_args(argv)
    if arguments.ranks < 2 or arguments.ranks % 2:
        parser.error(f"--ranks {arguments.ranks} is not an even number above 0")
    if arguments.keep and arguments.keep.exists():
        parser.error(f"--keep {arguments.keep} is there already")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    try:
        if own_machine.is_inside():
            return run(arguments, own_machine.furnish(PACKAGES))
        command = [sys.executable, Path(__file__).parent / "run", *sys.argv[1:]]
        code = own_machine.run_inside(command)
        return code if code >= 0 else 128 - code
    except (NoMachine, NoHosts) as missing:
        print(f"error: {missing}", file=sys.stderr)
        return 2


def run(arguments: argparse.Namespace, folder: Path) -> int:
    keys, jobs = folder / "keys", folder / "jobs"
    keys.mkdir()
    jobs.mkdir()
    rows = []
    with VirtualHosts(keys, 1 + WORKERS) as hosts:
        slurm = Slurm(hosts, SLURM_NODES, folder / "slurm",
                      max(os.cpu_count() or 1, arguments.ranks // arguments.nodes))
        try:
            place = Place(hosts, slurm, arguments.nodes, arguments.ranks)
            for way, trial, mode in choose_jobs(arguments):
                begun = time.monotonic()
                print(f"{way}, {trial}, {mode} ...", file=sys.stderr, flush=True)
                result = attempt(place, way, trial, mode, jobs / str(len(rows)))
                print(f"    {result.wrong or result.text}  ({time.monotonic() - begun:.0f} s)",
                      file=sys.stderr, flush=True)
                rows.append((way, trial, mode, result))
        finally:
            slurm.close()
            if arguments.keep:
                shutil.copytree(folder, arguments.keep, ignore=_only_files)
    print(f"\n{versions()}, {arguments.ranks} ranks, {arguments.nodes} virtual nodes, "
          f"{os.cpu_count()} CPUs\n\n{table(rows)}")
    return 1 if any(result.wrong for *_, result in rows) else 0


def choose_jobs(arguments: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Way, trial and mode of each job."""
    return [(way, trial, mode) for way in arguments.ways for trial in arguments.trials
            if (way == ELASTIC) == (trial == LOSES_A_NODE) for mode in arguments.modes]


def attempt(place: Place, way: str, trial: str, mode: str, folder: Path) -> Result:
    folder.mkdir()
    try:
        return TRIALS[trial](place, WAYS[way], folder, mode=mode)
    except OSError as error:
        return Result(str(error), str(error))


def table(rows: Sequence[tuple[str, str, str, Result]]) -> str:
    lines = [("way", "framework or fault", "mode", "result", "")]
    lines += [(way, trial, mode, result.text, "FAILED" if result.wrong else "passed")
              for way, trial, mode, result in rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in lines)


def versions() -> str:
    """Of Slurm, PMIx and Open MPI."""
    def first_line(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]

    pmix = first_line("dpkg-query", "--show", "--showformat=libpmix ${Version}", "libpmix2")
    return ", ".join((first_line("slurmd", "-V"), pmix,
                      first_line(str(Path(sys.executable).parent / "mpirun"), "--version")))


def _only_files(folder: str, names: list[str]) -> list[str]:
    """Those that cannot be copied: sockets and pipes."""
    return [name for name in names
            if not (Path(folder) / name).is_file() and not (Path(folder) / name).is_dir()]
