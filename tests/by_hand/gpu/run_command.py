"""Builds horovod-opt for this machine's PyTorch, with and without NCCL, and runs what shows whether
its paths for GPUs are right, from what tests/by_hand/gpu/collect has gathered in FOLDER.
docs/work/gpu.md says what each part looks at. Exit status 1 if something failed,
2 if nothing can be run."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gpu_builds
from gpu_builds import NCCL, PLAIN, Build
from gpu_machine import Machine, check, examine, why_not_nccl
from gpu_table import FAILED, NOT_RUN, PASSED, Row, Table
from wheel_folder import Manifest, Unusable, open_sealed

PARTS = {  # number: module, and the builds that it runs in
    "1": ("part_gradients", (PLAIN,)),
    "2": ("part_nccl", (NCCL,)),
    "3": ("part_devices", (PLAIN, NCCL)),
    "4": ("part_cores", (PLAIN,)),
    "5": ("part_images", (NCCL, PLAIN)),
    "6": ("part_scripts", (NCCL,)),
    "7": ("part_input", (PLAIN,)),
    "8": ("part_ddp", (NCCL,)),
}
# Without a GPU: in main memory, so in the build without GPU operations. Parts 5, 7 and 8 measure
# GPUs.
WITHOUT_GPU = {number: (PARTS[number][0], (PLAIN,)) for number in "12346"}
BEFORE_THE_END = 5.0  # seconds; by then a part has ended its jobs


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/gpu/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of tests/by_hand/gpu/collect")
    parser.add_argument("--without-gpu", action="store_true",
                        help="what needs no GPU, with events in the place of CUDA's")
    parser.add_argument("--parts", type=_parts, default=list(PARTS),
                        help="some of 1,2,3,4,5,6,7,8 (all of them)")
    parser.add_argument("--json", type=Path, default=Path("build/gpu.json"), metavar="FILE",
                        help="where the table goes, too (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER",
                        help="builds, logs and reports go there and stay; an empty folder (without "
                             "it they stay if something fails)")
    parser.add_argument("--minutes", type=_above_zero, default=12.0,
                        help="what has not ended by then has failed (%(default)g)")
    parser.add_argument("--steps", type=int, default=1000, help="of part 1 (%(default)s)")
    parser.add_argument("--seconds", type=_above_zero, default=1.5,
                        help="of a measurement of images/s (%(default)g)")
    parser.add_argument("--rounds", type=int, default=1,
                        help="of measurements; their medians are shown (%(default)s)")
    parser.add_argument("--batch", type=int, default=64,
                        help="images a rank and step on GPUs (%(default)s)")
    return parser.parse_args(argv)


def _parts(text: str) -> list[str]:
    chosen = text.split(",")
    for number in chosen:
        if number not in PARTS:
            raise argparse.ArgumentTypeError(f"{number!r} is not one of {', '.join(PARTS)}")
    return sorted(set(chosen))


def _above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def part_builds(chosen: Sequence[str], without_gpu: bool) -> list[tuple[str, str, str]]:
    """Number and module of the parts, and the build of each, in order."""
    known = WITHOUT_GPU if without_gpu else PARTS
    return [(number, known[number][0], build) for number in chosen if number in known
            for build in known[number][1]]


def build_names(chosen: Sequence[str], without_gpu: bool) -> list[str]:
    """Of all parts both: that they compile is a result, too."""
    used = {build for _, _, build in part_builds(chosen, without_gpu)}
    return [name for name in (PLAIN, NCCL) if name in used or set(chosen) == set(PARTS)]


def make_builds(builds: Sequence[Build], machine: Machine, arguments: argparse.Namespace,
                manifest: Manifest, until: float) -> list[Row]:
    """Beside each other, with an equal number of the machine's cores."""
    jobs = max(1, machine.cores // len(builds))

    def make(build: Build) -> Row:
        return gpu_builds.make(build, machine, arguments.folder, manifest, jobs,
                               until - time.monotonic())

    with ThreadPoolExecutor() as pool:
        return list(pool.map(make, builds))


def run_part(number: str, module: str, build: Build, machine: Machine,
             arguments: argparse.Namespace, until: float, show: Callable[[Row], None]) -> None:
    folder = build.folder / f"part-{number}"
    gpus = 0 if arguments.without_gpu else len(machine.gpus)
    seconds_left = until - time.monotonic() - BEFORE_THE_END
    if seconds_left <= 0:
        return show(Row(number, module, "no time was left", FAILED))
    command = [build.python, build.source / "tests/by_hand/gpu/part_runner.py", number, module,
               "--build", build.name, "--folder", folder, "--gpus", gpus, "--cores", machine.cores,
               "--steps", arguments.steps, "--rounds", arguments.rounds, "--batch", arguments.batch,
               "--seconds", arguments.seconds, "--left", seconds_left]
    with (build.folder / f"part-{number}.log").open("w") as log:
        process = subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=log, cwd=build.folder)
        rows = 0
        for line in process.stdout:
            show(Row(**json.loads(line)))
            rows += 1
        if process.wait() != 0 or rows == 0:
            show(Row(number, module, f"exit status {process.returncode}; see {log.name}", FAILED))


def run(arguments: argparse.Namespace, machine: Machine, manifest: Manifest, folder: Path) -> Table:
    table = Table({**machine.about(), "without_gpu": arguments.without_gpu,
                   "parts": arguments.parts})
    begun = time.monotonic()
    until = begun + 60 * arguments.minutes

    def show(row: Row) -> None:
        table.add(row)
        print(f"{time.monotonic() - begun:4.0f} s  {row.part:2} {row.what}: {row.value}  "
              f"{row.outcome}", flush=True)

    builds = {name: Build(name, folder / name)
              for name in build_names(arguments.parts, arguments.without_gpu)}
    reason = why_not_nccl(machine, manifest)
    if reason and builds.pop(NCCL, None):
        show(Row("", gpu_builds.NAMES[NCCL], reason, NOT_RUN))
    broken = set()
    for name, row in zip(builds, make_builds([*builds.values()], machine, arguments, manifest,
                                             until)):
        show(row)
        broken |= set() if row.outcome == PASSED else {name}
    for number, module, name in part_builds(arguments.parts, arguments.without_gpu):
        if name in broken:
            show(Row(number, module, f"the {gpu_builds.NAMES[name]} failed", FAILED))
        else:
            run_part(number, module, builds[name], machine, arguments, until, show)
    for number in arguments.parts:
        if arguments.without_gpu and number not in WITHOUT_GPU:
            show(Row(number, PARTS[number][0], "needs a GPU", NOT_RUN))
    table.about["seconds"] = round(time.monotonic() - begun)
    return table


def main() -> int:
    arguments = parse_arguments()
    try:
        if arguments.keep and arguments.keep.exists() and any(arguments.keep.iterdir()):
            raise Unusable(f"{arguments.keep} is not empty: name another folder for --keep")
        manifest = open_sealed(arguments.folder)
        machine = examine()
        check(machine, manifest, arguments.without_gpu)
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(machine.text(), flush=True)
    folder = (arguments.keep or Path(tempfile.mkdtemp(prefix="horovod-opt-gpu-"))).absolute()
    table = run(arguments, machine, manifest, folder)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(table.to_json() + "\n")
    print(f"\n{table.text()}\n\n{'passed' if table.status() == 0 else 'FAILED'} after "
          f"{table.about['seconds']} s; {arguments.json} has the same")
    if arguments.keep or table.status():
        print(f"builds, logs and reports: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return table.status()
