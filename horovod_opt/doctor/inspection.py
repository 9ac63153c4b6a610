"""`horovod-opt doctor`: the facts about an installation, a machine and an environment."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from horovod_opt import __version__, cpu_set, guard
from horovod_opt.launcher import built, slurm_step
from horovod_opt.settings import Settings, SettingsError, ineffective, load

# Framework: (native library, key in Horovod's metadata.json, distributions that bring it).
FRAMEWORKS = {
    "tensorflow": (
        "mpi_lib",
        "tensorflow",
        ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    ),
    "torch": ("mpi_lib_v2", "pytorch", ("torch",)),
    "mxnet": ("mpi_lib", "mxnet", ("mxnet",)),
}
# Where launchers tell a rank how many ranks share its node.
LOCAL_SIZES = ("HOROVOD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
# Of memfd_create, as core/shared_memory/shared_segment.cc tries them: closed on exec, sealable, not
# executable.
MEMFD_FLAGS = (1 | 2 | 8, 1 | 2)


@dataclasses.dataclass(frozen=True)
class Framework:
    """One framework: as installed, and what Horovod's library for it was built with."""

    name: str
    installed: str = ""
    built_against: str = ""
    library: str = ""
    parts: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    abi: str = ""
    libmpi: str = ""
    mpi_version: str = ""
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Facts:
    """An installation, a machine and an environment, for `ranks` ranks on this node."""

    ranks: int
    horovod: str
    horovod_path: str
    upstream_installed: bool
    frameworks: tuple[Framework, ...]
    mpirun: str
    mpirun_version: str
    cpus: tuple[int, ...]
    cores: int
    shm_free_mib: int | None
    memfd_error: str
    settings: Settings | None
    settings_error: str
    ineffective: tuple[str, ...]
    built_without_horovod: bool = False
    horovod_opt: str = __version__
    python: str = platform.python_version()


def gather(environ: Mapping[str, str], ranks: int | None = None) -> Facts:
    """Looks at this installation and machine; starts a Python for each framework built."""
    settings, settings_error = None, ""
    try:
        settings = load(environ)
    except SettingsError as error:
        settings_error = str(error)
    spec = guard.find_horovod()
    cpus = cpu_set.allowed_cpus()
    mpirun = find_mpirun()
    return Facts(
        ranks=ranks or local_size(environ),
        horovod=guard.version_of(spec) if spec else "",
        horovod_path=guard.location_of(spec) if spec else "",
        upstream_installed=bool(_distribution("horovod")),
        frameworks=_frameworks(spec),
        mpirun=mpirun,
        mpirun_version=_mpirun_version(mpirun),
        cpus=tuple(cpus),
        cores=cpu_set.count_cores(cpus),
        shm_free_mib=_shm_free_mib(),
        memfd_error=_memfd_error(),
        settings=settings,
        settings_error=settings_error,
        ineffective=tuple(ineffective(settings, environ)) if settings else (),
        built_without_horovod=built.is_without_horovod(),
    )


def local_size(environ: Mapping[str, str]) -> int:
    """Ranks on this node, inside a job; 1 outside."""
    of_launcher = (int(environ[name]) for name in LOCAL_SIZES if name in environ)
    return next(of_launcher, slurm_step.local_tasks(environ))


def find_mpirun() -> str:
    """mpirun on PATH, else the one of this Python's environment, else ""."""
    scripts = sysconfig.get_path("scripts")
    return shutil.which("mpirun") or shutil.which("mpirun", path=scripts) or ""


def mpi_name(text: str) -> str:
    """The name and version of an MPI in the text with which it describes itself."""
    for line in text.splitlines():
        if "Open MPI" in line or "OpenRTE" in line:
            numbers = [word.lstrip("v") for word in line.replace(",", " ").split()]
            return f"Open MPI {next((w for w in numbers if w[:1].isdigit()), '')}".strip()
        if "Version:" in line and ("MPICH" in text or "HYDRA" in text):
            return f"MPICH {line.split()[-1]}"
    return text.strip().splitlines()[0] if text.strip() else ""


def _distribution(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _mpirun_version(mpirun: str) -> str:
    if not mpirun:
        return ""
    try:
        answer = subprocess.run(
            [mpirun, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start: {error}"
    return mpi_name(answer.stdout + answer.stderr)


def _shm_free_mib() -> int | None:
    try:
        return shutil.disk_usage("/dev/shm").free >> 20
    except OSError:
        return None


def _memfd_error() -> str:
    """Why this process cannot make the memory that ranks share in mode topo; "": it can."""
    memfd_create = ctypes.CDLL(None, use_errno=True).memfd_create
    for flags in MEMFD_FLAGS:
        file = memfd_create(b"horovod-opt", flags)
        if file >= 0:
            os.close(file)
            return ""
    return os.strerror(ctypes.get_errno())


def _frameworks(spec: object | None) -> tuple[Framework, ...]:
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    against = {}
    if folder and (folder / "metadata.json").exists():
        against = json.loads((folder / "metadata.json").read_text())
    frameworks = []
    for name, (library, key, distributions) in FRAMEWORKS.items():
        version = next(filter(None, map(_distribution, distributions)), "")
        file = folder and folder / name / (library + sysconfig.get_config_var("EXT_SUFFIX"))
        if file and file.exists():
            frameworks.append(_probe(Framework(name, version, against.get(key, ""), str(file))))
        elif version:
            frameworks.append(Framework(name, version))
    return tuple(frameworks)


def _probe(framework: Framework) -> Framework:
    """Fills in what only the loaded library knows."""
    command = [sys.executable, "-m", "horovod_opt.doctor.probe", framework.name, framework.library]
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        cwd=Path(__file__).parent.parent,
    )
    if answer.returncode < 0:
        end = f"Python died of {signal.Signals(-answer.returncode).name}"
        return dataclasses.replace(framework, error=end)
    if answer.returncode > 0:
        lines = answer.stderr.strip().splitlines()
        return dataclasses.replace(framework, error=lines[-1] if lines else "no answer")
    facts = json.loads(answer.stdout.splitlines()[-1])
    return dataclasses.replace(framework, installed=facts.pop("version"), **facts)
