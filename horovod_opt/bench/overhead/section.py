"""The benchmark of the thread alone, as a part of a report."""

from __future__ import annotations

from typing import Any

from horovod_opt.bench.overhead import table
from horovod_opt.bench.overhead.plot import picture
from horovod_opt.measuring.present import Section


def section(document: dict[str, Any]) -> Section:
    measurements = document["measurements"]
    drawn = picture(measurements, made_on(document))
    return Section(
        "What the background thread costs",
        "Small workloads that show the thread alone: idle, a chain of dependent allreduces, many "
        "small ones, and training.",
        [table.grid(measurements)], [drawn] if drawn else [])


def made_on(document: dict[str, Any]) -> str:
    """The machine and the MPI, in a line."""
    about = document["machine"]
    libraries = dict.fromkeys(filter(None, (m.get("mpi") for m in document["measurements"])))
    return (f"{about['cpu']}, {about['cores']} cores; {', '.join(libraries) or 'no MPI'}; "
            f"bars: median, whiskers: smallest and largest, dots: single jobs")
