"""The native tests, one pytest test per build; a failure shows what ctest printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("build", ["plain", "thread", "address"])
def test_native(build: str) -> None:
    command = [sys.executable, str(Path(__file__).with_name("run.py")), build]
    run = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert run.returncode == 0, f"{' '.join(command)}\n{run.stdout}"
