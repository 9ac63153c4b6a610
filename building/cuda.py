"""CUDA's toolkit, and the version of it that PyTorch is for. It takes the standard library only."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HOMES = ("HOROVOD_CUDA_HOME", "CUDA_HOME", "CUDA_PATH")


@dataclass(frozen=True)
class Toolkit:
    version: str  # of its compiler, as in "13.0"
    home: str     # its folder


def find_toolkit(variables: Mapping[str, str]) -> Toolkit | None:
    """By what nvcc says of itself: it may be called through a link or a script from elsewhere."""
    candidates = [f"{variables[name]}/bin/nvcc" for name in HOMES if variables.get(name)]
    for name in [*candidates, "nvcc", "/usr/local/cuda/bin/nvcc"]:
        nvcc = shutil.which(name, path=variables.get("PATH"))
        if nvcc is None:
            continue
        version = re.search(r"release (\d+\.\d+)", _ask(nvcc, "--version"))
        top = re.search(r"^#\$ TOP=(.+)$", _ask(nvcc, "--dryrun", "-x", "cu", "-c", "/dev/null"),
                        re.MULTILINE)
        if version and top:
            return Toolkit(version[1], str(Path(top[1].strip()).resolve()))
    return None


def version_of_pytorch(packages: str) -> str | None:
    """The version of CUDA that the PyTorch in this folder is for; None: it is for CPUs."""
    file = Path(packages, "torch", "version.py")
    text = file.read_text() if file.is_file() else ""
    version = re.search(r"^cuda\b[^=\n]*= *['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return version[1] if version else None


def major(version: str) -> int:
    return int(version.partition(".")[0])


def _ask(*command: str) -> str:
    result = subprocess.run(command, check=False, text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.stdout
