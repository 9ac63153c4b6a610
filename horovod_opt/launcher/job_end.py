"""A job of mpirun on several hosts has ended well only if every rank says that it did.

Open MPI 5's mpirun ends with status 0 when it has lost a host and killed all ranks. So each rank's
program is started by rank_end.py, which tells horovodrun that it starts and with which status it
ended. A rank from which horovodrun cannot be reached takes no part: for it mpirun's status counts.
"""

from __future__ import annotations

import ctypes
import errno
import hmac
import secrets
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

import psutil

from horovod_opt.launcher import rank_end

# After the end of mpirun, for the last words of ranks to arrive.
LAST_WORDS_SECONDS = 5
# What accept() fails with where the process or the machine has no room for a connection, and how
# long it is left alone then: nothing tells that there is room again.
NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
REST_SECONDS = 0.05
FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
             signal.SIGUSR2)
PR_SET_PDEATHSIG = 1  # from linux/prctl.h


class JobEnd(socketserver.ThreadingTCPServer):
    """Listens to the ranks of one job."""

    daemon_threads = True
    request_queue_size = 4096

    def __init__(self):
        super().__init__(("", 0), _Listener)
        self.key = secrets.token_hex(16)
        self.condition = threading.Condition()
        self.hosts: dict[str, str] = {}  # by rank: those that have started
        self.codes: dict[str, int] = {}  # by rank: those that have ended; less than 0 for a signal

    def get_request(self) -> tuple[socket.socket, object]:
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in NO_ROOM:  # serve_forever() would try again at once, and again
                time.sleep(REST_SECONDS)
            raise

    def environment(self, env: Mapping[str, str], nics: Iterable[str] | None) -> dict[str, str]:
        """With what rank_end.py needs; `nics` are interfaces that all hosts have in common."""
        parts = [self.key, str(self.server_address[1]), *_addresses(nics)]
        return {**env, rank_end.LAUNCHER: ",".join(parts)}

    @staticmethod
    def watched(command: Sequence[str]) -> list[str]:
        return [sys.executable, "-I", "-S", rank_end.__file__, *command]

    def run(self, mpirun: Sequence[str], env: Mapping[str, str]) -> int:
        """Runs mpirun as if this process had become it; its status, or 1 if that is 0 and a rank
        has not ended with 0. For the main thread only."""
        libc = ctypes.CDLL(None)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        process = subprocess.Popen(  # which ends the job if horovodrun is killed
            mpirun, env=dict(env), preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))
        for kind in FORWARDED:
            signal.signal(kind, lambda number, _: process.send_signal(number))
        code = process.wait()
        if code:
            return code if code > 0 else 128 - code
        failures = self._find_failures()
        for failure in failures:
            print(f"horovodrun: mpirun has ended with status 0, but {failure}", file=sys.stderr)
        return 1 if failures else 0

    def _find_failures(self) -> list[str]:
        """What happened to each rank that has started and not ended with 0."""
        with self.condition:
            self.condition.wait_for(lambda: len(self.codes) == len(self.hosts), LAST_WORDS_SECONDS)
            return [f"rank {rank} on {host} {_end(self.codes.get(rank))}"
                    for rank, host in sorted(self.hosts.items()) if self.codes.get(rank) != 0]


def _end(code: int | None) -> str:
    if code is None:
        return "was killed, or its host was lost"
    return f"ended with status {code}" if code > 0 else f"was ended by signal {-code}"


class _Listener(socketserver.StreamRequestHandler):
    timeout = rank_end.SECONDS

    def handle(self) -> None:
        try:
            key, rank, host, word = self.rfile.readline(1000).decode().split()
        except (OSError, ValueError):
            return
        if not hmac.compare_digest(key.encode(), self.server.key.encode()):
            return
        with self.server.condition:
            if word == "starts":
                self.server.hosts[rank] = host
            else:
                self.server.codes[rank] = int(word)
            self.server.condition.notify_all()
        self.wfile.write(b".")


def _addresses(nics: Iterable[str] | None) -> list[str]:
    """This host's for the others: those of `nics`, if it has any of them."""
    addresses = {name: [entry.address for entry in entries if entry.family == socket.AF_INET]
                 for name, entries in psutil.net_if_addrs().items()}
    common = [address for name in sorted(nics or ()) for address in addresses.get(name, [])]
    candidates = [address for name in sorted(addresses) for address in addresses[name]]
    return common or [address for address in candidates if not address.startswith("127.")]
