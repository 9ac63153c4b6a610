"""The rows of the matrix: a framework in a version, and an MPI. MPIs other than the first are tried
with the newest version of each framework alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from packaging.version import Version

TENSORFLOW, TORCH = "tensorflow", "torch"
NAMES = {TENSORFLOW: "TensorFlow", TORCH: "PyTorch"}
DISTRIBUTIONS = {TENSORFLOW: "tensorflow-cpu", TORCH: "torch"}
VERSIONS = {  # by framework: what is tried, whatever the package index has
    TENSORFLOW: ("2.16", "2.17", "2.18", "2.19", "2.20", "2.21"),
    TORCH: ("2.4", "2.7", "2.10", "2.13"),
}
NEWEST = 2  # of PyTorch that the index has are tried as well
OPENMPI, MPICH, DEBIAN = MPIS = ("openmpi-5", "mpich", "openmpi-4.1")


class Unusable(Exception):
    """The matrix cannot be run so; one line that says why and what to do."""


@dataclass(frozen=True)
class Row:
    """`version` is the first two numbers of the framework's; `mpi` one of the names above."""

    framework: str
    version: str
    mpi: str = OPENMPI

    @property
    def name(self) -> str:
        framework = f"{self.framework}-{self.version}"
        return framework if self.mpi == OPENMPI else f"{self.mpi}-{framework}"

    def place(self) -> tuple:
        """Sorts rows as plan() does."""
        return MPIS.index(self.mpi), [*VERSIONS].index(self.framework), Version(self.version)


def plan(newest_torch: Sequence[str]) -> list[Row]:
    """All rows. `newest_torch`: of newest_of_index()."""
    versions = {**VERSIONS, TORCH: in_order({*VERSIONS[TORCH], *newest_torch})}
    rows = [Row(framework, version) for framework in versions for version in versions[framework]]
    return rows + [Row(framework, versions[framework][-1], mpi) for mpi in MPIS[1:]
                   for framework in versions]


def choose_rows(rows: Sequence[Row], only: Sequence[str]) -> list[Row]:
    """Those that `only` names, in its order: rows, or the first words of rows, as in 'mpich'.

    Raises:
        Unusable: a name is that of no row.
    """
    selection = []
    for name in only:
        named = [row for row in rows if f"{row.name}-".startswith(f"{name}-")]
        if not named:
            raise Unusable(f"{name!r} is not one of {', '.join(row.name for row in rows)}, nor "
                           "how some of them begin")
        selection += named
    return list(dict.fromkeys(selection))


def in_order(versions: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(versions, key=Version))


def newest_of_index(distribution: str) -> list[str]:
    """The newest NEWEST releases, by their first two numbers, that can be installed here.

    Raises:
        Unusable: pip gets no answer.
    """
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", "--json",
         distribution],
        stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if answer.returncode:
        raise Unusable(f"pip index versions {distribution}: {answer.stderr.strip()}")
    return newest(json.loads(answer.stdout)["versions"])


def newest(versions: Collection[str]) -> list[str]:
    minors = {f"{version.major}.{version.minor}" for version in map(Version, versions)}
    return list(in_order(minors)[-NEWEST:])
