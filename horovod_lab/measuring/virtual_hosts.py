"""Hosts on one machine, h1, h2, ...: each with a network, a name and an sshd of its own.

They are Linux namespaces whose virtual cables end in a switch. All files are those of this machine,
and so are processors and memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

ADDRESS = "10.213.0.{}"
MOST = 254  # hosts, by their addresses
PROGRAMS = ("ip", "tc", "unshare", "hostname", "mount", "ssh", "sshd", "ssh-keygen")
SEARCH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
# From sched.h; what a thread must not share with others when it enters a mount namespace.
CLONE_FS = 0x200
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x20000, 0x4000000, 0x40000000

SSHD = """
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""
SSH = """
IdentityFile {folder}/user_key
UserKnownHostsFile {folder}/known_hosts
LogLevel ERROR
"""
# sshd insists on /run/sshd, and both hosts need to know each other's names.
START = """
hostname "$1" && mount --bind "$2/hosts" /etc/hosts &&
mount -t tmpfs none /run && mkdir /run/sshd && exec "$3" -D -e -f "$2/sshd_config"
"""


class NoHosts(Exception):
    """What must be installed for them, or that this is not root."""


def _call(*command: object) -> str:
    process = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, env={**os.environ, "PATH": SEARCH}
    )
    if process.returncode:
        raise OSError(f"{' '.join(map(str, command))}: {process.stderr.strip()}")
    return process.stdout


def namespaces() -> list[str]:
    """Names of all network namespaces of this machine that have one."""
    return [line.split()[0] for line in _call("ip", "netns", "list").splitlines()]


def processes_in(space: str) -> list[psutil.Process]:
    processes = []
    for pid in _call("ip", "netns", "pids", space).split():
        with contextlib.suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(int(pid)))
    return processes


def remove_leftovers() -> None:
    """Ends the hosts of processes that were killed: nothing else does, since namespaces that have
    names stay."""
    for space in namespaces():
        match = re.fullmatch(r"(?:switch|h\d+)-(\d+)", space)
        if match and not psutil.pid_exists(int(match[1])):
            with contextlib.suppress(OSError):  # another process has just done it
                _end(space)


def _end(space: str) -> None:
    """Of a namespace and all that runs in it."""
    processes = processes_in(space)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=10)
    _call("ip", "netns", "delete", space)


class VirtualHosts:
    """So many hosts, started by the constructor; gone after close(), or when a `with` ends.

    `megabits`: how much each may send a second; None: as fast as this machine can. Their keys and
    settings are in `folder`, which is to be empty. Raises NoHosts, or OSError if one of the
    programs fails."""

    def __init__(self, folder: Path, number: int = 2, megabits: float | None = None):
        if not 1 <= number <= MOST:
            raise ValueError(f"{number} virtual hosts: 1 to {MOST} are possible")
        absent = [name for name in PROGRAMS if not shutil.which(name, path=SEARCH)]
        if os.geteuid():
            absent.append("the rights of root")
        if absent:
            raise NoHosts(f"hosts of their own need {', '.join(absent)}")
        self._folder = folder
        remove_leftovers()
        # Names of namespaces are global; those of links and addresses are not.
        self._switch = f"switch-{os.getpid()}"
        self._addresses = {f"h{index}": ADDRESS.format(index) for index in range(1, number + 1)}
        self._spaces: dict[str, str] = {}
        self._daemons: dict[str, subprocess.Popen] = {}
        self._prepare_ssh()
        try:
            self._lay_cables(megabits)
            self._start()
        except BaseException:
            self.close()
            raise

    def _prepare_ssh(self) -> None:
        for key in "host_key", "user_key":
            _call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._folder / key)
        for name, text in (("sshd_config", SSHD), ("ssh_config", SSH)):
            (self._folder / name).write_text(text.format(folder=self._folder))
        names = {"localhost": "127.0.0.1", **self._addresses}
        (self._folder / "hosts").write_text(
            "".join(f"{address} {name}\n" for name, address in names.items())
        )
        ssh = self._folder / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(
            f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self._folder}/ssh_config "$@"\n'
        )
        ssh.chmod(0o755)

    def _lay_cables(self, megabits: float | None) -> None:
        _call("ip", "netns", "add", self._switch)
        _call("ip", "-n", self._switch, "link", "add", "switch", "type", "bridge")
        _call("ip", "-n", self._switch, "link", "set", "switch", "up")
        for host, address in self._addresses.items():
            space = f"{host}-{os.getpid()}"
            _call("ip", "netns", "add", space)
            self._spaces[host] = space
            _call(*f"ip link add eth0 netns {space} type veth peer name {host} "
                   f"netns {self._switch}".split())
            _call("ip", "-n", self._switch, "link", "set", host, "master", "switch", "up")
            _call("ip", "-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            _call("ip", "-n", space, "link", "set", "lo", "up")
            if megabits is not None:
                _call(*f"tc -n {space} qdisc add dev eth0 root tbf rate {megabits:g}mbit "
                       f"burst 256kb latency 50ms".split())
        self.mend()

    def _start(self) -> None:
        sshd = shutil.which("sshd", path=SEARCH)
        for host, space in self._spaces.items():
            log = self._folder / f"sshd.{host}.txt"
            with log.open("w") as file:
                self._daemons[host] = subprocess.Popen(
                    ["ip", "netns", "exec", space, "unshare", "--uts", "sh", "-c", START,
                     "sh", host, self._folder, sshd],
                    stderr=file, stdin=subprocess.DEVNULL, env={**os.environ, "PATH": SEARCH},
                )
            while "listening" not in log.read_text():
                if self._daemons[host].poll() is not None:
                    raise OSError(log.read_text().strip())
                time.sleep(0.02)

    def __enter__(self) -> VirtualHosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def names(self) -> list[str]:
        return list(self._addresses)

    @property
    def path(self) -> str:
        """For the variable PATH: with an ssh that knows the keys."""
        return os.pathsep.join((str(self._folder / "bin"), SEARCH))

    def on_first(self, function: Callable, *arguments: object, **options: object) -> object:
        """Calls the function in a thread that is on h1; so are the processes that it starts."""
        with ThreadPoolExecutor(1, initializer=self._enter) as thread:
            return thread.submit(function, *arguments, **options).result()

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        process = os.pidfd_open(self._daemons["h1"].pid)
        try:
            spaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWNET
            if libc.unshare(CLONE_FS) or libc.setns(process, spaces):
                raise OSError(ctypes.get_errno(), "cannot enter the namespaces of h1")
        finally:
            os.close(process)

    def mend(self) -> None:
        """The cables are plugged in again."""
        for space in self._spaces.values():
            _call("ip", "-n", space, "link", "set", "eth0", "up")

    def received(self) -> dict[str, int]:
        """Bytes that have come through its cable, by host."""
        received = {}
        for host, space in self._spaces.items():
            link, = json.loads(_call(*f"ip -n {space} -s -j link show eth0".split()))
            received[host] = link["stats64"]["rx"]["bytes"]
        return received

    def processes(self) -> list[psutil.Process]:
        """Those that are on one of the hosts, without its sshd."""
        return [process for process in self._all_processes() if process.name() != "sshd"]

    def _all_processes(self) -> list[psutil.Process]:
        processes = []
        for space in self._spaces.values():
            processes += processes_in(space)
        return processes

    def stop_jobs(self) -> None:
        """Kills all processes on the hosts but what each of them began with."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def close(self) -> None:
        for space in self._spaces.values():
            _end(space)
        for daemon in self._daemons.values():
            daemon.wait()
        self._daemons.clear()
        self._spaces.clear()
        with contextlib.suppress(OSError):  # it was never made
            _end(self._switch)
