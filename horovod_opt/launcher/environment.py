"""What `horovodrun` needs to know beyond upstream: its own environment, and Open MPI 5."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

# prterun, the launcher of Open MPI 5, wants two dashes: it takes -bind-to, -map-by and -rank-by
# for the program to run, and silently ignores -mca for its own parameters (plm_*).
_SINGLE_DASH = re.compile(r"(?<!\S)-(?=(?:mca|bind-to|map-by|rank-by)(?:\s|$))")
_OPEN_MPI_VERSION = re.compile(r"\((?:Open MPI|OpenRTE)\)\s+(\d+)\.")


def open_mpi_major(version: str) -> int | None:
    """Major version of Open MPI from the output of `mpirun --version`, None if it has none."""
    match = _OPEN_MPI_VERSION.search(version)
    return int(match.group(1)) if match else None


def open_mpi_options(options: str, version: str) -> str:
    """Spell Open MPI 4 options of mpirun for the release that printed `version`."""
    major = open_mpi_major(version)
    if major is None or major < 5:
        return options
    return _SINGLE_DASH.sub("--", options)


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """A copy of `env` whose PATH finds the `mpirun` and `python` of this interpreter.

    A virtual environment comes first, as its activation would put it, because `horovodrun`
    is often started by its full path. Another interpreter's directory is added only when it
    is missing from PATH: /usr/bin must not hide an MPI that the user put before it.
    """
    directory = os.path.dirname(os.path.abspath(sys.executable))
    path = env.get("PATH", os.defpath).split(os.pathsep)
    if sys.prefix != sys.base_prefix:
        path = [directory] + [entry for entry in path if entry != directory]
    elif directory not in path:
        path.insert(0, directory)
    return {**env, "PATH": os.pathsep.join(path)}


def mpirun_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env`, which is for the ranks, and what mpirun itself needs where `env` has none of it.

    That is this process' PATH as in environment(), PYTHONPATH and HOME; Open MPI 5 refuses to start
    without HOME.
    """
    current = environment(os.environ)
    return {**{name: current[name] for name in ("PATH", "PYTHONPATH", "HOME")
               if name in current}, **env}
