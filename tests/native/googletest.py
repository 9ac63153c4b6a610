"""Finds GoogleTest's source: a system copy, or that of Debian's package, which is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from building import debian_package  # noqa: E402

PACKAGE = "googletest"
INSTALLED = "usr/src/googletest"


class NoGoogleTest(Exception):
    """GoogleTest's source is neither here nor to be had."""


def source(cache: Path) -> Path:
    """Returns the folder of GoogleTest's CMakeLists.txt; `cache` is created when it is needed."""
    system = Path("/") / INSTALLED
    if (system / "CMakeLists.txt").is_file():
        return system
    try:
        return (debian_package.unpacked(PACKAGE, cache) / INSTALLED).resolve()
    except debian_package.NotAvailable as error:
        raise NoGoogleTest(
            f"GoogleTest is needed for the native tests, and {error}\n"
            f"Install Debian's or Ubuntu's package {PACKAGE}, or unpack GoogleTest's source so "
            f"that {cache / INSTALLED / 'CMakeLists.txt'} exists."
        ) from error


if __name__ == "__main__":
    try:
        print(source(Path(sys.argv[1])))
    except NoGoogleTest as error:
        sys.exit(str(error))
