"""Forks the ranks of jobs from processes that have imported their framework: TensorFlow takes
longer to import than most jobs to run.

For each framework there are two, with hashes of their own: what ranks 0 and 1 keep in sets comes in
different orders, as in processes that were started apart. horovodrun starts forked_rank.py in the
place of Python, which has its process forked here, with its arguments, environment, folder, CPUs
and standard files, and ends as that does.
"""

from __future__ import annotations

import array
import fcntl
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import types
from pathlib import Path

HERE = Path(__file__).parent
MORE_IMPORTS = {"tensorflow": ["keras"]}
PER_FRAMEWORK = 2
# Frameworks look at them when they are imported.
READ_BY_IMPORTS = ("TF_", "KERAS_", "OMP_", "MKL_", "OPENBLAS_", "LD_", "MALLOC_",
                   "TORCH_", "PYTHON")


def suits(environment: dict[str, str]) -> bool:
    """Whether a forked rank has all that these variables bring."""
    return not any(name.startswith(READ_BY_IMPORTS) for name in environment)


def start(folder: Path, framework: str, owner: int, environment: dict[str, str]) -> list[Path]:
    """The sockets of the servers of a framework. Starts them in `environment`, unless another
    process has; they end with the process `owner`."""
    sockets = [folder / f"{framework}-{number}" for number in range(PER_FRAMEWORK)]
    with open(folder / f"{framework}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all(path.exists() for path in sockets):
            servers = [_start(path, framework, owner, environment) for path in sockets]
            for server in servers:
                if server.stdout.readline() != b"ready\n":
                    raise RuntimeError(f"no fork server of {framework}: {folder}/*.log say why")
    return sockets


def _start(path: Path, framework: str, owner: int,
           environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with open(f"{path}.log", "w") as log:
        return subprocess.Popen(
            [sys.executable, __file__, path, framework, str(owner)],
            env={**environment, "PYTHONHASHSEED": str(1 + int(path.name[-1]))},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True)


class Server:
    """Forks a process for each connection, and tells it how that ended."""

    def __init__(self, path: Path, owner: int):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(os.pidfd_open(owner), selectors.EVENT_READ, self._end)
        self._connections: dict[int, socket.socket] = {}  # by the process forked for it
        self._request: dict | None = None

    def next_process(self) -> dict:
        """Returns in each forked process what was asked for, and never in the server."""
        while self._request is None:
            for key, _ in self._selector.select():
                key.data(key.fileobj)
                if self._request is not None:
                    break
        self._selector.close()
        self._listener.close()
        for connection in self._connections.values():
            connection.close()
        return self._request

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        request, files = _receive(connection)
        child = os.fork()
        if child == 0:
            connection.close()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            self._request = request
            return
        for file in files:
            os.close(file)
        self._connections[child] = connection
        connection.sendall(child.to_bytes(4, "little"))
        self._selector.register(connection, selectors.EVENT_READ, lambda _: self._kill(child))
        self._selector.register(os.pidfd_open(child), selectors.EVENT_READ,
                                lambda descriptor: self._tell(child, descriptor))

    def _kill(self, child: int) -> None:
        """Who has asked for it is no more."""
        if child in self._connections:
            os.kill(child, signal.SIGKILL)

    def _tell(self, child: int, descriptor: int) -> None:
        """A forked process has ended."""
        _, status = os.waitpid(child, 0)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        connection = self._connections.pop(child)
        self._selector.unregister(connection)
        try:
            connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))
        except BrokenPipeError:
            pass
        connection.close()

    def _end(self, _: int) -> None:
        for child in self._connections:
            os.kill(child, signal.SIGKILL)
        sys.exit()


def _receive(connection: socket.socket) -> tuple[dict, list[int]]:
    """What forked_rank.py sends: a length, and with it standard input, output and error; JSON."""
    size = array.array("i", [0] * 3).itemsize * 3
    head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(size))
    files = array.array("i")
    for _, _, data in ancillary:
        files.frombytes(data)
    text = connection.recv(int.from_bytes(head, "little"), socket.MSG_WAITALL)
    return json.loads(text), list(files)


def become(request: dict) -> types.ModuleType:
    """The module __main__ of a process that was started as the request says, yet to be run."""
    os.setsid()
    os.chdir(request["folder"])
    os.sched_setaffinity(0, request["cpus"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[:] = request["arguments"]
    sys.path[0] = os.path.dirname(sys.argv[0])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if os.environ.get("HOROVOD_OPT_MODE", "").strip():  # see horovod_opt.pth
        importlib.import_module("horovod_opt.guard").arm()
    main = types.ModuleType("__main__")
    main.__file__ = sys.argv[0]
    sys.modules["__main__"] = main
    return main


def main() -> None:
    path, framework, owner = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    for name in (framework, *MORE_IMPORTS.get(framework, ())):
        importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads: they would be missing in what is forked"
    server = Server(path, owner)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    module = become(server.next_process())
    with open(module.__file__) as file:
        exec(compile(file.read(), module.__file__, "exec"), module.__dict__)


if __name__ == "__main__":
    main()
