"""Options that suites of `horovod-opt bench` have in common."""

from __future__ import annotations

import argparse
from pathlib import Path

from horovod_opt.arguments import above_zero, positive


def add_length(parser: argparse.ArgumentParser, seconds: float | None, timeout: float,
               shown: str = "%(default)s") -> None:
    """--rounds, --seconds and --timeout; the last two with these defaults, the seconds' as they are
    shown."""
    parser.add_argument("--rounds", type=positive, default=3, metavar="N",
                        help="how often each job is run (%(default)s)")
    parser.add_argument("--seconds", type=above_zero("seconds"), default=seconds, metavar="S",
                        help=f"measured in each job, beside those it takes to start ({shown})")
    parser.add_argument("--timeout", type=above_zero("seconds"), default=timeout, metavar="S",
                        help="after which a job is killed (%(default)s)")


def add_output(parser: argparse.ArgumentParser, files: str) -> None:
    """--output, a folder for these files."""
    parser.add_argument("--output", type=Path, default=Path("bench"), metavar="FOLDER",
                        help=f"for {files} (%(default)s)")
