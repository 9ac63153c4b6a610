"""Runs a Python program in a process that a fork server forks, in the place of this one.

    python -S -E forked_rank.py SOCKETS PROGRAM [ARGUMENT ...]

SOCKETS: of fork_server.py, separated by colons; ranks take them in turn. Signals go on to the
process, and this one ends as it does. Imports nothing that takes time.
"""

import json
import os
import signal
import socket
import sys

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
RANK_VARIABLES = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")

sockets, arguments = sys.argv[1].split(":"), sys.argv[2:]
if "PMI_FD" in os.environ:  # MPICH's, an open file: it is not handed on
    os.execv(sys.executable, [sys.executable, *arguments])
rank = int(next(os.environ[name] for name in RANK_VARIABLES if name in os.environ))

# The process may be heard of before its number is known here.
signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
connection = socket.socket(socket.AF_UNIX)
connection.connect(sockets[rank % len(sockets)])
request = json.dumps({
    "arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd(),
    "cpus": sorted(os.sched_getaffinity(0)),
}).encode()
socket.send_fds(connection, [len(request).to_bytes(4, "little")], [0, 1, 2])
connection.sendall(request)
child = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "little")
for number in SIGNALS:
    signal.signal(number, lambda number, _: os.kill(child, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
end = connection.recv(4, socket.MSG_WAITALL)
code = int.from_bytes(end, "little", signed=True) if end else -signal.SIGKILL
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
