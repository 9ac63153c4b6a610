"""A machine of its own for a command: with Slurm installed, and gone without a trace when it ends.

Processes, mounts, names and System V memory are in Linux namespaces. What is written to /usr, /etc
and /var goes to memory, and so do Debian's packages. The kernel takes everything away when the
command ends, also if it is killed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

INSIDE = "CLUSTERS_OWN_MACHINE"  # set on it
MEMORY = Path("/mnt")  # where its folder in memory is
SHARED = Path("/dev/shm")  # empty at first, as MEMORY is
PR_SET_PDEATHSIG = 1  # from linux/prctl.h
SEARCH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
PROGRAMS = ("unshare", "mount", "apt-get")
OVERLAID = ("usr", "etc", "var")
# What is written there ends with it.
TMPFS = (MEMORY, Path("/run"), SHARED)
IN_MEMORY = (*TMPFS, *(Path("/") / name for name in OVERLAID))
# Daemons that packages would start are not.
NO_SERVICES = "#!/bin/sh\nexit 101\n"


class NoMachine(Exception):
    """What is missing."""


def run_inside(command: Sequence[str | Path]) -> int:
    """Runs the command on a machine of its own; its exit status. A signal to this process ends
    everything there, which is status -9. Raises NoMachine."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=SEARCH)]
    if os.geteuid():
        missing.append("the rights of root")
    if missing:
        raise NoMachine(f"a machine of its own needs {', '.join(missing)}")
    libc = ctypes.CDLL(None)
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", *map(str, command)],
        env={**os.environ, "PATH": SEARCH, INSIDE: "1"}, stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

    # unshare blocks other signals; everything inside ends with it.
    former = {number: signal.signal(number, lambda *_: process.kill())
              for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    try:
        return process.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def is_inside() -> bool:
    return INSIDE in os.environ


def furnish(packages: Sequence[str]) -> Path:
    """Installs Debian's packages on this machine of its own; an empty folder in memory."""
    _call("mount", "--make-rprivate", "/")
    for what, where in ("proc", "/proc"), *(("tmpfs", folder_path) for folder_path in TMPFS):
        _call("mount", "-t", what, what, where)
    for name in OVERLAID:
        upper, work = MEMORY / "overlay" / name, MEMORY / "work" / name
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        _call("mount", "-t", "overlay", "overlay", "-o",
              f"lowerdir=/{name},upperdir={upper},workdir={work}", f"/{name}")
    for name in ("lock", "netns"):
        (Path("/run") / name).mkdir()
    policy = Path("/usr/sbin/policy-rc.d")
    policy.write_text(NO_SERVICES)
    policy.chmod(0o755)
    if not all(map(_is_installed, packages)):
        _call("apt-get", "-qq", "update")
        _call("apt-get", "-qq", "install", "-y", "--no-install-recommends", *packages)
    share = MEMORY / "share"
    share.mkdir()
    return share


def _is_installed(package: str) -> bool:
    query = subprocess.run(["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
                           capture_output=True, text=True)
    return query.stdout == "installed"


def _call(*command: object) -> None:
    ended = subprocess.run([*map(str, command)], text=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    if ended.returncode:
        raise NoMachine(f"{' '.join(map(str, command))}: {ended.stdout.strip()}")
