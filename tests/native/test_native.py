"""The native tests, one pytest test per build; a failure shows what ctest printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(1800)  # most of it compiles
@pytest.mark.parametrize("build", [
    ("plain",),
    *(pytest.param(("--once", name), marks=pytest.mark.full) for name in ("thread", "address")),
    *(pytest.param((name,), marks=pytest.mark.slow) for name in ("thread", "address")),
], ids=" ".join)
def test_native(build: tuple[str, ...], subtests: pytest.Subtests) -> None:
    """What GoogleTest skips is skipped here, too."""
    command = [sys.executable, str(Path(__file__).with_name("run.py")), *build]
    run = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert run.returncode == 0, f"{' '.join(command)}\n{run.stdout}"
    skipped = re.findall(r"^native \w+ +skipped (\S+): (.*)$", run.stdout, re.MULTILINE)
    number = re.search(r" (\d+) skipped ", run.stdout)
    assert number and int(number[1]) == len(skipped)
    for name, reason in skipped:
        with subtests.test(name):
            pytest.skip(f"{name}: {reason}")
