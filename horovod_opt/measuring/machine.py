"""What a measurement was made on and with: without it a number says nothing."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from horovod_opt.usable_cores import allowed_cpus, count_cores

DISTRIBUTIONS = ("horovod-opt", "horovod", "tensorflow", "tensorflow-cpu", "keras", "torch",
                 "numpy")
SETTINGS = ("HOROVOD_", "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "MPIR_CVAR_", "OMP_", "KMP_",
            "TF_NUM_", "TF_ENABLE_", "TF_XLA_")


def describe() -> dict:
    return {
        "cpu": cpu_model(),
        "cpus": len(allowed_cpus()),
        "cores": count_cores(allowed_cpus()),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "system": _system(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": _versions(),
        "environment": {name: value for name, value in sorted(os.environ.items())
                        if name.startswith(SETTINGS)},
    }


def cpu_model(cpuinfo: str | None = None) -> str:
    text = Path("/proc/cpuinfo").read_text() if cpuinfo is None else cpuinfo
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (AttributeError, KeyError, OSError):  # AttributeError: Python 3.9
        return platform.system()


def _versions() -> dict[str, str]:
    versions = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return versions
