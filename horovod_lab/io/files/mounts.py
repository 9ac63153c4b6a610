"""File systems that a folder, or an image of it, is seen through."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 30.0  # seconds until a mount is there
PLAIN = ("-noI", "-noD", "-noF", "-noX")  # nothing is compressed


@dataclass(frozen=True)
class Mount:
    """`command` with {source} and {at} serves in the foreground; without one the kernel does."""

    name: str
    programs: Sequence[str]
    command: Sequence[str] = ()
    of_image: bool = True

    def why_not(self) -> str:
        """What is missing here; "" if nothing is."""
        missing = [program for program in self.programs if shutil.which(program) is None]
        if missing:
            return f"no {', '.join(missing)} here"
        if os.geteuid() != 0:
            return "needs root"
        return "" if Path("/dev/fuse").exists() or not self.command else "no /dev/fuse here"


MOUNTS = (
    Mount("FUSE passthrough", ("bindfs",), ("bindfs", "-f", "{source}", "{at}"), of_image=False),
    Mount("SquashFS, kernel", ("mksquashfs", "mount")),
    Mount("squashfuse_ll", ("mksquashfs", "squashfuse_ll"),
          ("squashfuse_ll", "-f", "{source}", "{at}")))


def make_image(folder: Path, image: Path) -> None:
    """Of SquashFS. Raises CalledProcessError."""
    subprocess.run(["mksquashfs", folder, image, "-noappend", "-quiet", "-no-progress", *PLAIN],
                   check=True, stdout=subprocess.DEVNULL)


@contextmanager
def mounted(mount: Mount, source: Path, at: Path) -> Iterator[int]:
    """The number of the process that serves it; 0 for the kernel. Raises OSError: it is not there
    in time."""
    at.mkdir(exist_ok=True)
    server = None
    if mount.command:
        words = [word.format(source=source, at=at) for word in mount.command]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        subprocess.run(["mount", "-o", "loop,ro", source, at], check=True)
    try:
        end = time.monotonic() + PATIENCE
        while not os.path.ismount(at):
            if time.monotonic() > end or (server and server.poll() is not None):
                raise OSError(f"{mount.name}: nothing is mounted")
            time.sleep(0.02)
        yield server.pid if server else 0
    finally:
        subprocess.run(["umount", at], check=False)
        if server:
            server.wait(timeout=PATIENCE)
