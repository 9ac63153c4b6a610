"""What a measurement was made on and with: without it a number says nothing."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from horovod_opt.cpu_set import allowed_cpus, count_cores

DISTRIBUTIONS = ("horovod-opt", "horovod", "tensorflow", "tensorflow-cpu", "keras", "torch",
                 "numpy")
SETTINGS = ("HOROVOD_", "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "MPIR_CVAR_", "OMP_", "KMP_",
            "TF_NUM_", "TF_ENABLE_", "TF_XLA_")
VECTORS = ("avx512f", "avx2", "avx")  # the widest first


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
    """Of the first processor: its name, the numbers that tell apart what a virtual machine calls by
    one name, and the widest vectors that it computes with."""
    text = Path("/proc/cpuinfo").read_text() if cpuinfo is None else cpuinfo
    first = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in first.items()}
    if "model name" not in fields:
        return platform.machine()
    numbers = [f"{word} {fields[name]}" for word, name in (("family", "cpu family"),
                                                           ("model", "model")) if name in fields]
    vectors = [name for name in VECTORS if name in fields.get("flags", "").split()]
    return ", ".join([fields["model name"], *numbers, *vectors[:1]])


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
