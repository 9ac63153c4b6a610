"""Finds GoogleTest's source: a system copy, or that of Debian's package, which is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = "googletest"
INSTALLED = "usr/src/googletest"


class NoGoogleTest(Exception):
    """GoogleTest's source is neither here nor to be had."""


def source(cache: Path) -> Path:
    """Returns the folder of GoogleTest's CMakeLists.txt; `cache` is created when it is needed."""
    system = Path("/") / INSTALLED
    if (system / "CMakeLists.txt").is_file():
        return system
    cache = cache.resolve()
    fetch = [sys.executable, "-m", "building.debian_package", PACKAGE, str(cache)]
    if subprocess.run(fetch, cwd=REPOSITORY).returncode != 0:
        raise NoGoogleTest(
            "GoogleTest is needed for the native tests, and cannot be fetched (see above).\n"
            f"Install Debian's or Ubuntu's package {PACKAGE}, or unpack GoogleTest's source so "
            f"that {cache / INSTALLED / 'CMakeLists.txt'} exists."
        )
    return cache / INSTALLED


if __name__ == "__main__":
    try:
        print(source(Path(sys.argv[1])))
    except NoGoogleTest as error:
        sys.exit(str(error))
