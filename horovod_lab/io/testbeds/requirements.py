"""What testbeds need of the machine, and the one line that says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from horovod_lab.io.testbeds.testbed import NoTestbed

SEARCH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
# Programs, and what Debian calls the package that has them.
PACKAGES = {"unshare": "util-linux", "nsenter": "util-linux", "mount": "mount", "ip": "iproute2",
            "losetup": "mount", "mkfs.ext4": "e2fsprogs", "debugfs": "e2fsprogs"}
FUSE = Path("/dev/fuse")


def check(who: str, programs: Iterable[str], devices: Iterable[Path] = ()) -> None:
    """Raises NoTestbed with all that `who` misses and the remedies."""
    absent = [name for name in programs if not shutil.which(name, path=SEARCH)]
    missing, remedies = list(absent), []
    if absent:
        packages = sorted({PACKAGES[name] for name in absent})
        remedies.append(f"install what Debian calls {', '.join(packages)}")
    for device in devices:
        if not device.exists():
            missing.append(str(device))
            remedies.append(f"a machine, or a container, that has {device}")
    if os.geteuid():
        missing.insert(0, "the rights of root")
        remedies.insert(0, "run it as root")
    if missing:
        raise NoTestbed(f"{who} needs {', '.join(missing)}; "
                        f"remedy: {'; '.join(remedies)}")


def call(command: Sequence[object], **more: Any) -> str:
    """What the program prints. Raises OSError, with what it says, if it fails."""
    process = subprocess.run([*map(str, command)], capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, env={**os.environ, "PATH": SEARCH}, **more)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
        raise OSError(f"{' '.join(map(str, command))}: {lines[-1]}")
    return process.stdout
