"""Fetches a Debian package's files as any user, without installing it.

For what the package index does not have. Works with the system's own package sources, wherever
apt-get and dpkg-deb are; keeps the files in the given folder for the next call.

    python -m building.debian_package PACKAGE FOLDER
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


class NotAvailable(Exception):
    """The package is not to be had here. The message says why."""


def unpack(package: str, cache: Path) -> Path:
    """The folder under which the package's files lie as they would under /.

    `cache` is created when it is needed. Raises NotAvailable.
    """
    if cache.is_dir():
        return cache
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        raise NotAvailable(f"{' and '.join(missing)} not found")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix=f"{cache.name}-") as scratch:
        archive = _download(package, Path(scratch))
        files = Path(scratch) / "unpacked"
        subprocess.run(["dpkg-deb", "-x", archive, files], check=True)
        try:
            os.rename(files, cache)
        except OSError:  # someone else was faster, and theirs is as good
            if not cache.is_dir():
                raise
    return cache


def _download(package: str, folder: Path) -> Path:
    """Downloads the package with the system's package lists, or else with lists of our own."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    private = ["-o", f"Dir::State={folder / 'state'}", "-o", f"Dir::Cache={folder / 'cache'}"]
    log = _apt(folder, "download", package)
    if not list(folder.glob("*.deb")):
        # The lists are absent or older than what the sources hold now. One failing source of
        # many does not matter, hence no look at the exit status.
        print(f"reading the package lists to find {package}", file=sys.stderr)
        log += _apt(folder, *private, "-o", "Acquire::Languages=none", "update")
        log += _apt(folder, *private, "download", package)
    archives = list(folder.glob("*.deb"))
    if not archives:
        raise NotAvailable(f"apt-get cannot download {package}:\n{log.strip()}")
    return archives[0]


def _apt(folder: Path, *arguments: str) -> str:
    # apt would hand the download to a user of its own, who cannot enter our folder.
    command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", *arguments]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True).stdout


if __name__ == "__main__":
    try:
        unpack(sys.argv[1], Path(sys.argv[2]))
    except NotAvailable as error:
        sys.exit(str(error))
