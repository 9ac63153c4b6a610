"""Options that suites of `horovod-opt bench` have in common: which series are measured, how often
and how long, and where to."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from horovod_lab.bench.worker_job import BASE, MODES, Series, of_modes
from horovod_opt.arguments import above_zero, positive
from horovod_opt.settings import SettingsError


def add_modes(parser: argparse.ArgumentParser, modes: str = MODES, than: str = "off") -> None:
    """--modes: series."""
    parser.add_argument(
        "--modes", type=_modes, default=modes,
        help=f"what to compare with {than} (%(default)s); MODE+yield and MODE-yield: with Open "
             "MPI's mpi_yield_when_idle=1 and =0; gs/N: with HOROVOD_OPT_GS_INTERVAL=N; scp is "
             "left out where a rank has one core")


def _modes(text: str) -> list[Series]:
    try:
        return of_modes(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_plain(parser: argparse.ArgumentParser) -> None:
    """--plain: a series of another Horovod, that of another Python's environment."""
    parser.add_argument("--plain", type=_plain, metavar="PYTHON",
                        help="also measure the unpatched Horovod of this Python's environment")


def add_oneccl(parser: argparse.ArgumentParser) -> None:
    """--oneccl: likewise."""
    parser.add_argument("--oneccl", type=_oneccl, metavar="PYTHON",
                        help="also measure off over Intel's oneCCL: the Horovod of this Python's "
                             "environment, built with HOROVOD_CPU_OPERATIONS=CCL")


def _plain(python: str) -> Series:
    return Series("plain upstream", mode=None, python=_with_horovodrun(python))


def _oneccl(python: str) -> Series:
    """oneCCL and Intel's MPI lie where wheels put them; setvars.sh of Intel's installers would say
    the same of their places."""
    python_path = _with_horovodrun(python)
    prefix = Path(python_path).parents[1]
    libraries = filter(None, (str(prefix / "lib"), os.environ.get("LD_LIBRARY_PATH")))
    return Series("off, oneCCL", BASE, python_path, environment={
        "HOROVOD_CPU_OPERATIONS": "CCL", "CCL_ROOT": str(prefix), "I_MPI_ROOT": str(prefix),
        "LD_LIBRARY_PATH": os.pathsep.join(libraries)})


def _with_horovodrun(python: str) -> str:
    path = Path(python).absolute()
    if not os.access(path, os.X_OK) or not path.with_name("horovodrun").exists():
        raise argparse.ArgumentTypeError(f"{python} is no Python with a horovodrun beside it")
    return str(path)


def add_length(parser: argparse.ArgumentParser, seconds: float | None, timeout: float | None,
               rounds: int | None = 3, shown: Mapping[str, str] = {}) -> None:
    """--rounds, --seconds and --timeout, with these defaults. `shown`: by option, the default as
    the help has it."""
    def default(name: str) -> str:
        return f"({shown.get(name, '%(default)s')})"

    parser.add_argument("--rounds", type=positive, default=rounds, metavar="N",
                        help=f"how often each job is run {default('rounds')}")
    parser.add_argument("--seconds", type=above_zero("seconds"), default=seconds, metavar="S",
                        help="measured in each job, beside those it takes to start "
                             f"{default('seconds')}")
    parser.add_argument("--timeout", type=above_zero("seconds"), default=timeout, metavar="S",
                        help=f"after which a job is killed {default('timeout')}")


def add_output(parser: argparse.ArgumentParser, files: str) -> None:
    """--output, a folder for these files."""
    parser.add_argument("--output", type=Path, default=Path("bench"), metavar="FOLDER",
                        help=f"for {files} (%(default)s)")


def add_bytes(parser: argparse.ArgumentParser, sizes: Sequence[int]) -> None:
    """--bytes: of allreduces of float32, with these defaults."""
    parser.add_argument("--bytes", type=_float32_bytes, nargs="+", default=sizes, metavar="N",
                        help=f"of each allreduce ({' '.join(map(str, sizes))})")


def _float32_bytes(text: str) -> int:
    size = positive(text)
    if size % 4:
        raise argparse.ArgumentTypeError(f"{text} bytes are no whole number of float32")
    return size
