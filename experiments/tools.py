"""The command `horovod-opt` as experiments use it."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "build" / "images"  # the real input, made once for all experiments
# What two cores train in a few minutes; options that the user adds come later and count.
SMALL = ("--pixels", "96", "--batch", "4", "--threads", "1")


def horovod_opt(*arguments: object, environ: Mapping[str, str] = os.environ) -> int:
    """Runs the command that is installed beside this Python, in the project's folder; returns its
    exit status. Paths inside of that folder are recorded as relative ones."""
    program = Path(sys.executable).with_name("horovod-opt")
    if not program.exists():
        print(f"There is no horovod-opt beside {sys.executable}; remedy: make build, then "
              ".venv/bin/python experiments/...", file=sys.stderr)
        return 2
    process, is_ended = None, False

    def end(number: int, frame: object) -> None:
        nonlocal is_ended
        is_ended = True
        if process:
            process.terminate()

    before = signal.signal(signal.SIGTERM, end)
    try:
        process = subprocess.Popen([program, *map(relative, arguments)], cwd=ROOT, env=environ)
        if is_ended:  # before there was a process
            process.terminate()
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # it was interrupted as well, and first ends its own jobs
                pass
    finally:
        signal.signal(signal.SIGTERM, before)


def relative(argument: object) -> str:
    """A path as it is seen from the project's folder; anything else as text."""
    if not isinstance(argument, Path):
        return str(argument)
    path = argument.absolute()
    return str(path.relative_to(ROOT) if ROOT in path.parents else path)


@dataclass(frozen=True)
class Tool:
    """One command of horovod-opt, with options that stand before the user's own."""

    command: Sequence[str]
    options: Sequence[object] = ()

    @property
    def passes_on(self) -> str:
        return " ".join(["horovod-opt", *self.command, *map(relative, self.options)])

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        pass

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        return horovod_opt(*self.command, *self.options, "--output", folder, *further)


def training(*options: object) -> Tool:
    """The suite training of the benchmark."""
    return Tool(("bench", "training"), (*SMALL, "--images", IMAGES, *options))
