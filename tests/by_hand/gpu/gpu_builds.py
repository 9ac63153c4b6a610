"""The two builds that a run compares: each in a copy of the repository and a virtual environment of
its own, which sees the packages of the Python that the run was started with. Only the standard
library is used here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_machine import Machine
from gpu_table import FAILED, PASSED, Row
from wheel_folder import Manifest

ROOT = Path(__file__).parents[3]
PLAIN, NCCL = "plain", "nccl"
NAMES = {PLAIN: "build without GPU operations", NCCL: "build with NCCL"}
# Of the repository's root: what was made there, beside virtual environments.
NOT_COPIED = {".git", ".hypothesis", ".pytest_cache", ".ruff_cache", "build", "dist", "bench",
              "profile", "report", "simulation"}
TIMEOUT = 124  # what `timeout` ends with
# The first of these that is found.
ERRORS = [re.compile(mark) for mark in (
    r":\d+: (fatal )?error: ", "CMake Error", "horovod-opt: error:", "ERROR:", "error:")]


@dataclass(frozen=True)
class Build:
    """`folder`: of this build alone."""

    name: str
    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def log(self) -> Path:
        return self.folder / "install.log"


def variables(build: Build, machine: Machine, archive: Path, jobs: int) -> dict[str, str]:
    """What the build has in its environment, beside what is there anyway."""
    chosen = {
        "HOROVOD_OPT_UPSTREAM": str(archive.absolute()),
        "HOROVOD_OPT_ANY_VERSION": "1",  # PyTorch is the one that this machine has
        "HOROVOD_WITH_PYTORCH": "1", "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_BUILD_CUDA_CC_LIST": machine.capabilities(),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
    }
    if machine.cuda_home:  # PyTorch looks for it under the one name, Horovod under the other
        chosen.update(CUDA_HOME=machine.cuda_home, HOROVOD_CUDA_HOME=machine.cuda_home)
    if build.name == NCCL:
        chosen["HOROVOD_GPU_OPERATIONS"] = "NCCL"
    return chosen


def make(build: Build, machine: Machine, folder: Path, manifest: Manifest, jobs: int,
         seconds: float) -> Row:
    """Whether it could be built, within `seconds`. `folder`: with the wheels; `jobs`: compilers
    at once."""
    begun = time.monotonic()
    copy_repository(build.source, build.folder.parent)
    venv.create(build.folder / "venv", symlinks=True)
    _show_packages(build, machine.sites)
    inherited = {name: text for name, text in os.environ.items() if "HOROVOD" not in name}
    environ = {**inherited, **variables(build, machine, manifest.archive(folder), jobs)}
    wheels = [str(path.absolute()) for path in manifest.wheels(folder)]
    (pip,) = [wheel for wheel in wheels if Path(wheel).name.startswith("pip-")]
    install = ["install", "--no-index", "--no-deps", "--disable-pip-version-check"]
    steps = ([str(build.python), f"{pip}/pip", *install, "--quiet", *wheels],
             [str(build.python), "-m", "pip", *install, "--verbose", "--no-build-isolation",
              str(build.source)])
    with build.log.open("w") as log:
        for step in steps:
            seconds_left = seconds - (time.monotonic() - begun)
            code = run_limited(step, environ, log, seconds_left)
            if code:
                break
    took = time.monotonic() - begun
    if code == 0:
        return Row("", NAMES[build.name], f"{took:.0f} s", PASSED)
    reason = "no end" if code == TIMEOUT else first_error(build.log.read_text(errors="replace"))
    return Row("", NAMES[build.name], f"{reason}; see {build.log}", FAILED)


def copy_repository(target: Path, run: Path) -> None:
    """Without what was made there, and without `run`, the folder of the run that it is for."""
    run = run.resolve()

    def list_products(folder: str, names: list[str]) -> list[str]:
        here = Path(folder).resolve()
        products = {"__pycache__"}
        if here == ROOT.resolve():
            products = NOT_COPIED | {name for name in names if name.startswith(".venv")}
        return [name for name in names if name in products or here / name == run]

    shutil.copytree(ROOT, target, ignore=list_products)


def _show_packages(build: Build, sites: list[str]) -> None:
    """The environment's own packages come first."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = build.folder / "venv" / "lib" / version / "site-packages"
    lines = [f"import site; site.addsitedir({site!r})\n" for site in dict.fromkeys(sites)]
    (own / "packages_of_the_machine.pth").write_text("".join(lines))


def run_limited(command: list[str], environ: Mapping[str, str], log, seconds: float) -> int:
    """Its exit status, or TIMEOUT after `seconds`. All that it started ends then, and also if this
    is interrupted."""
    try:
        process = subprocess.Popen(
            ["timeout", "--kill-after", "5", f"{max(seconds, 0.1):.1f}", *command], env=environ,
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    except OSError as error:
        log.write(f"error: {error}\n")
        return 1
    try:
        return process.wait()
    except BaseException:
        process.terminate()  # which it hands on
        process.wait()
        raise


def first_error(log: str) -> str:
    """The line that says most: a compiler's first error, the build's own refusal, or the last.
    Of files it has the name alone."""
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["it said nothing"]
    for mark in ERRORS:
        for line in lines:
            if mark.search(line):
                return re.sub(r"\S*/(?=[^/\s]+:\d+)", "", line)[:160]
    return lines[-1][:160]
