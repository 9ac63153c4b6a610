"""Compiles C++ of the tests against the patched Horovod: its headers in build/upstream, with the
arguments that its own files were compiled with, and the library that is installed."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
COMMANDS = REPOSITORY / "build" / "cmake" / "compile_commands.json"
GLOO = REPOSITORY / "build" / "upstream" / "third_party" / "gloo" / "gloo"
# By the package in which the library is installed: CMake's target.
LIBRARIES = {"torch": "pytorch", "tensorflow": "tensorflow"}


def installed_libraries() -> dict[str, Path]:
    """Horovod's native libraries by framework, without loading them."""
    horovod = importlib.util.find_spec("horovod")
    assert horovod is not None and horovod.origin is not None, "horovod-opt is not installed"
    package = Path(horovod.origin).parent
    return {framework: library for framework in LIBRARIES
            for library in (package / framework).glob("mpi_lib*.so")}


def _arguments(target: str) -> tuple[list[str], Path]:
    """Of CMake's target: the compiler and its arguments without files, and the folder to call it
    in."""
    assert COMMANDS.is_file(), f"{COMMANDS} is missing: install with `make build` in this checkout"
    for entry in json.loads(COMMANDS.read_text()):
        if f"/{target}.dir/" in entry["command"]:
            words = shlex.split(entry["command"])
            return words[:words.index("-o")], Path(entry["directory"])
    raise AssertionError(f"{COMMANDS} says nothing of {target}")


def _compile(target: str, arguments: list[str], output: Path) -> Path:
    command, folder = _arguments(target)
    command += [*arguments, "-o", str(output)]
    run = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, f"{shlex.join(command)}\n{run.stdout}"
    return output


def compile_library(source: Path, output: Path, framework: str) -> Path:
    """A shared library that the process of an imported Horovod can load."""
    return _compile(LIBRARIES[framework],
                    [f"-I{HERE}", str(source), "-shared", str(installed_libraries()[framework])],
                    output)


# In a process of its own: what a function of the library says of each text on standard input.
_SAY = """
import ctypes
import importlib
import json
import sys

framework, library, name = sys.argv[1:]
importlib.import_module(f"horovod.{framework}")  # loads the library that ours is linked with
function = getattr(ctypes.CDLL(library), name)
function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
print(json.dumps([function(text.encode()).decode() for text in json.load(sys.stdin)]))
"""


def sayings(source: Path, function: str, texts: list[str], folder: Path) -> list[str]:
    """What the C function of the source, char* to char*, returns for each text."""
    framework = next(iter(installed_libraries()))
    library = compile_library(source, folder / f"{function}.so", framework)
    run = subprocess.run([sys.executable, "-c", _SAY, framework, str(library), function],
                         cwd=folder, check=False, text=True, input=json.dumps(texts),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def compile_with_gloo(source: Path, output: Path, *options: str) -> Path:
    """A program that includes sources of the patched Gloo."""
    return _compile("gloo", [*options, str(source), str(GLOO / "common" / "logging.cc")], output)
