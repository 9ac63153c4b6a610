"""`horovod-opt doctor --pid`: the processes of a job on this host, and what they answer.

A rank tells its state on an abstract Unix socket (csrc/core/report/state_socket.h). The name is
drawn; whose it is stands in /proc/PID/fd, which its user and root can read.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

PROC = Path("/proc")
PREFIX = "@horovod-opt-state-"  # StateSocket::kPrefix
# A rank waits 200 ms for a lock and 2 s for all of them.
SECONDS = 8.0
RANKS = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
STATES = {"R": "runs", "S": "sleeps", "D": "waits for a device", "T": "is stopped",
          "t": "is stopped by a debugger", "Z": "has ended", "X": "has ended", "I": "is idle"}


class NoAnswer(Exception):
    """Why a process says nothing, for users."""


def refusal(pid: int) -> str:
    """Why there is nothing to ask; empty: there may be."""
    state = state_of(pid)
    if not state:
        return f"There is no process {pid}."
    if state in "ZX":
        return f"Process {pid} has ended; its parent has not taken note of it yet."
    user = user_of(pid)
    if os.geteuid() not in (0, user):
        return f"Process {pid} belongs to {user_name(user)}: ask as this user, or as root."
    return ""


def not_a_rank(pid: int) -> str:
    return (f"Process {pid} ({command_of(pid)}) is no rank and has started none on this host: "
            "it has not called hvd.init(), has shut Horovod down, or has a Horovod that is not "
            "this version.")


def sockets(pid: int) -> list[str]:
    """The names of the sockets on which the process may tell its state: one a framework."""
    names = {}
    with contextlib.suppress(OSError):
        for line in (PROC / str(pid) / "net" / "unix").read_text().splitlines():
            fields = line.split()
            if fields[-1].startswith(PREFIX):
                names[f"socket:[{fields[6]}]"] = fields[-1]
    if not names:
        return []
    found = set()
    with contextlib.suppress(OSError):
        for file in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(names.get(os.readlink(file), ""))
    return sorted(found - {""})


def pids() -> Iterator[int]:
    return (int(path.name) for path in PROC.iterdir() if path.name.isdigit())


def ranks_below(pid: int) -> list[int]:
    """Processes with a socket that this one has started, or others for it."""
    parents = {other: parent_of(other) for other in pids()}

    def is_below(other: int) -> bool:
        while other > 1 and other != pid:
            other = parents.get(other, 0)
        return other == pid

    return sorted(other for other in parents if is_below(other) and sockets(other))


def ask(pid: int, name: str, seconds: float = SECONDS) -> str:
    """What the process says on this socket. Raises NoAnswer."""
    state = state_of(pid)
    if state in ("T", "t"):
        raise NoAnswer(f"it {STATES[state]}; kill -CONT {pid} lets it go on")
    if not same_network(pid):
        raise NoAnswer("it is in another network namespace, as in a container: run this in there "
                       f"(docker exec, or nsenter --net --target {pid})")
    until = time.monotonic() + seconds
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect("\0" + name[1:])
            own = _listener(connection)
            if own != pid:
                raise NoAnswer(f"its socket is that of process {own}, from which it was forked")
            while part := connection.recv(1 << 16):
                answer += part
                connection.settimeout(max(0.001, until - time.monotonic()))
    except TimeoutError:
        raise NoAnswer(f"it has not answered within {seconds:g} s: it {STATES[state]}") from None
    except OSError as error:
        raise NoAnswer(f"{error.strerror}") from None
    text = answer.decode(errors="replace")
    if not text.endswith("end\n"):
        raise NoAnswer("it answers its own user and root alone" if not text else
                       "it has ended in the middle of its answer")
    return text


def _listener(connection: socket.socket) -> int:
    """The process that listens at the other end."""
    format_ = "3i"  # struct ucred: process, user, group
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED,
                                        struct.calcsize(format_))
    return struct.unpack(format_, credentials)[0]


def same_network(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(PROC / str(pid) / "ns" / "net") == os.readlink(PROC / "self/ns/net")
    return True


def environment(pid: int) -> dict[str, str]:
    """With which the process was started; nothing if it cannot be read."""
    with contextlib.suppress(OSError):
        text = (PROC / str(pid) / "environ").read_bytes().decode(errors="replace")
        return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
    return {}


def rank_from(environ: Mapping[str, str]) -> int:
    """-1: the launcher has told none."""
    texts = (environ[name] for name in RANKS if environ.get(name, "").isdigit())
    return int(next(texts, -1))


def job_from(environ: Mapping[str, str]) -> str:
    """As JobFromEnvironment() of csrc/binding/report/rank_state.cc."""
    if port := environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT"):
        return f"gloo {environ.get('HOROVOD_GLOO_RENDEZVOUS_ADDR', '')}:{port}"
    if space := environ.get("PMIX_NAMESPACE"):
        return f"pmix {space}"
    job = environ.get("SLURM_JOB_ID")
    return f"slurm {job}.{environ.get('SLURM_STEP_ID', '')}" if job else ""


def threads(pid: int) -> list[str]:
    """What the main thread and Horovod's do, as the kernel sees it."""
    texts = []
    tick = os.sysconf("SC_CLK_TCK")
    for task in sorted(_tasks(pid), key=lambda task: (task != pid, task)):
        with contextlib.suppress(OSError):
            fields = _stat(PROC / str(pid) / "task" / str(task))
            name = fields[1]
            if task != pid and not name.startswith("hvd-"):
                continue
            seconds = (int(fields[13]) + int(fields[14])) / tick
            texts.append(f"{'main thread' if task == pid else name} {STATES.get(fields[2], '?')} "
                         f"({seconds:.1f} s of CPU)")
    return texts


def _tasks(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(path.name) for path in (PROC / str(pid) / "task").iterdir()]
    return []


def _stat(folder: Path) -> list[str]:
    """The fields of proc(5) from 0 on; the second one is the name, which may have blanks."""
    before, _, after = (folder / "stat").read_text().rpartition(")")
    number, _, name = before.partition(" (")
    return [number, name, *after.split()]


def user_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return (PROC / str(pid)).stat().st_uid
    return -1


def state_of(pid: int) -> str:
    """A letter as in proc(5); empty: there is no such process."""
    with contextlib.suppress(OSError):
        return _stat(PROC / str(pid))[2]
    return ""


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(_stat(PROC / str(pid))[3])
    return 0


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        return " ".join(words).strip()[:60] or _stat(PROC / str(pid))[1]
    return "?"


def user_name(user: int) -> str:
    with contextlib.suppress(KeyError):
        return f"user {pwd.getpwuid(user).pw_name}"
    return f"user {user}"
