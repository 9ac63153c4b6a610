"""The option --modes of the suites of `horovod-opt bench`."""

from __future__ import annotations

import argparse

from horovod_lab.bench.worker_job import MODES, Series, of_modes
from horovod_opt.settings import SettingsError


def add_modes(parser: argparse.ArgumentParser, modes: str = MODES, than: str = "off") -> None:
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
