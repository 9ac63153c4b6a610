"""Options that measure another Horovod as well: that of another Python's environment."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from horovod_lab.bench.worker_job import BASE, Series


def add_plain(parser: argparse.ArgumentParser) -> None:
    """--plain: a series."""
    parser.add_argument("--plain", type=_plain, metavar="PYTHON",
                        help="also measure the unpatched Horovod of this Python's environment")


def add_oneccl(parser: argparse.ArgumentParser) -> None:
    """--oneccl: a series."""
    parser.add_argument("--oneccl", type=_oneccl, metavar="PYTHON",
                        help="also measure off over Intel's oneCCL: the Horovod of this Python's "
                             "environment, built with HOROVOD_CPU_OPERATIONS=CCL")


def _plain(python: str) -> Series:
    return Series("plain upstream", mode=None, python=_with_horovodrun(python))


def _oneccl(python: str) -> Series:
    """oneCCL and Intel's MPI lie where wheels put them; setvars.sh of Intel's installers would say
    the same of their places."""
    found = _with_horovodrun(python)
    prefix = Path(found).parents[1]
    libraries = filter(None, (str(prefix / "lib"), os.environ.get("LD_LIBRARY_PATH")))
    return Series("off, oneCCL", BASE, found, environment={
        "HOROVOD_CPU_OPERATIONS": "CCL", "CCL_ROOT": str(prefix), "I_MPI_ROOT": str(prefix),
        "LD_LIBRARY_PATH": os.pathsep.join(libraries)})


def _with_horovodrun(python: str) -> str:
    path = Path(python).absolute()
    if not os.access(path, os.X_OK) or not path.with_name("horovodrun").exists():
        raise argparse.ArgumentTypeError(f"{python} is no Python with a horovodrun beside it")
    return str(path)
