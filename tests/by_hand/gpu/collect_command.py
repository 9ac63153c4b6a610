"""Gathers in FOLDER what tests/by_hand/gpu/run needs on a machine without a package index:
Horovod's source archive, and wheels of all that horovod-opt is built and run with but PyTorch and
NCCL, which that machine has. docs/work/gpu.md says more."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from wheel_folder import NEEDED, Unusable, seal

from building import BuildError, upstream

ROOT = Path(__file__).parents[3]
# pip takes wheels for exactly the platforms that it is told.
GLIBC = range(28, 4, -1)  # 2.28, as PyTorch's wheels need, down to 2.5
OLD_NAMES = ("manylinux2014", "manylinux2010", "manylinux1")


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/gpu/collect", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="empty, or not there yet")
    parser.add_argument("--python", type=_python, default="3.12", metavar="VERSION",
                        help="of the machine with the GPU (%(default)s)")
    parser.add_argument("--cuda", type=int, choices=(12, 13), default=13,
                        help="of its PyTorch, the major version (%(default)s)")
    parser.add_argument("--machine", default="x86_64", help="its processor (%(default)s)")
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi",
                        help="(%(default)s)")
    parser.add_argument("--without", type=lambda text: text.split(","), default=[],
                        metavar="NAME,...", help="what the machine with the GPU has, such as numpy")
    parser.add_argument("--constraint", type=Path, default=ROOT / "constraints.txt",
                        metavar="FILE", help="versions (those that the project is tested with)")
    return parser.parse_args(argv)


def _python(text: str) -> str:
    if not re.fullmatch(r"3\.(9|[1-9][0-9])", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no version of Python like 3.12")
    return text


def platforms(machine: str) -> list[str]:
    return [*(f"manylinux_2_{minor}_{machine}" for minor in GLIBC),
            *(f"{name}_{machine}" for name in OLD_NAMES)]


def download_command(arguments: argparse.Namespace) -> list[str]:
    return [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
            "--only-binary=:all:", "--implementation", "cp", "--python-version", arguments.python,
            *(word for name in platforms(arguments.machine) for word in ("--platform", name)),
            "--constraint", str(arguments.constraint), "--dest", str(arguments.folder),
            *(name for name in NEEDED if name not in arguments.without), arguments.mpi]


def collect(arguments: argparse.Namespace) -> str:
    """Says what has been collected. Raises Unusable, or BuildError where there is no archive."""
    folder = arguments.folder
    unknown = sorted(set(arguments.without) - set(NEEDED))
    if unknown:
        raise Unusable(f"{unknown[0]!r} is not needed; --without knows {', '.join(NEEDED)}")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise Unusable(f"{folder} is not empty: name another folder, or remove what is in it")
    shutil.copy(upstream.obtain(), folder)
    result = subprocess.run(download_command(arguments), check=False, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    if result.returncode != 0:
        last_lines = "\n".join(result.stdout.strip().splitlines()[-8:])
        raise Unusable(f"pip cannot download the wheels for Python {arguments.python} on "
                       f"{arguments.machine}; it said:\n{last_lines}")
    manifest = seal(folder, arguments.python, arguments.cuda)
    size = sum((folder / name).stat().st_size for name in manifest.files)
    return (f"{folder}: {len(manifest.files)} files, {size / 2**20:.1f} MiB, for Python "
            f"{manifest.python} and CUDA {manifest.cuda}")


def main() -> int:
    arguments = parse_arguments()
    try:
        print(collect(arguments))
    except (Unusable, BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
