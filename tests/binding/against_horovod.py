"""Compiles C++ of the tests against the patched Horovod: its headers in build/upstream, with the
arguments that its own files were compiled with, and the library that is installed."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
COMMANDS = REPOSITORY / "build" / "cmake" / "compile_commands.json"
# By the package in which the library is installed: CMake's target.
LIBRARIES = {"torch": "pytorch", "tensorflow": "tensorflow"}


def installed_libraries() -> dict[str, Path]:
    """Horovod's native libraries by framework, without loading them."""
    horovod = importlib.util.find_spec("horovod")
    assert horovod is not None and horovod.origin is not None, "horovod-opt is not installed"
    package = Path(horovod.origin).parent
    return {framework: library for framework in LIBRARIES
            for library in (package / framework).glob("mpi_lib*.so")}


def _arguments(framework: str) -> tuple[list[str], Path]:
    """The compiler and its arguments without files, and the folder to call it in."""
    assert COMMANDS.is_file(), f"{COMMANDS} is missing: install with `make build` in this checkout"
    target = f"/{LIBRARIES[framework]}.dir/"
    for entry in json.loads(COMMANDS.read_text()):
        if target in entry["command"]:
            words = shlex.split(entry["command"])
            return words[:words.index("-o")], Path(entry["directory"])
    raise AssertionError(f"{COMMANDS} says nothing of {LIBRARIES[framework]}")


def compile_library(source: Path, output: Path, framework: str) -> Path:
    """A shared library that the process of an imported Horovod can load."""
    command, folder = _arguments(framework)
    command += [f"-I{HERE}", str(source), "-shared", "-o", str(output)]
    command.append(str(installed_libraries()[framework]))
    run = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, f"{shlex.join(command)}\n{run.stdout}"
    return output
