"""Options that suites of `horovod-opt bench` have in common."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from horovod_opt.arguments import above_zero, positive


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
