"""Runs a rank's program, and tells `horovodrun` that it starts and how it ended.

    python -I -S rank_end.py PROGRAM [ARGUMENT...]

Part of each rank of a job that mpirun starts on several hosts, see job_end.py. It imports only a
little of the standard library, so that a rank starts as fast as without it. For the program nothing
changes: input, output, signals and exit status are its own.
"""

import os
import resource
import signal
import socket
import sys

LAUNCHER = "HOROVOD_OPT_LAUNCHER"  # the job's key, a port, and addresses, with commas between
SECONDS = 2  # longest wait for one address


def main(program):
    key, port, *addresses = os.environ.pop(LAUNCHER, ",").split(",")
    about = f"{key} {os.environ.get('OMPI_COMM_WORLD_RANK', '?')} {socket.gethostname()}"
    launcher = next((address for address in addresses
                     if _tell(address, port, f"{about} starts")), None)
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        if not os.read(ready, 1):
            os._exit(1)
        _become(program)
    # mpirun signals the whole process group, so the program gets its own. It may send one itself,
    # in its first moment, so it waits until they do no harm here.
    for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2"):
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
    os.close(ready)
    try:
        os.write(go, b"1")
    except BrokenPipeError:
        pass  # a signal has ended it already
    os.close(go)
    _, status = os.waitpid(child, 0)
    killer = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = os.WEXITSTATUS(status)
    if launcher:
        _tell(launcher, port, f"{about} {-killer or code}")
    if killer:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program has left its own
        if killer != signal.SIGKILL:
            signal.signal(killer, signal.SIG_DFL)
        os.kill(os.getpid(), killer)
    return code


def _become(program):
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"horovodrun: cannot run {program[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def _tell(address, port, text):
    """Whether the launcher has heard it."""
    try:
        with socket.create_connection((address, int(port)), SECONDS) as connection:
            connection.sendall(f"{text}\n".encode())
            return connection.recv(1) != b""
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
