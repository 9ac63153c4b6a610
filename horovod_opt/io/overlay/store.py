"""The store: the process of a node that holds the table, hands over what programs cannot read
themselves, and ends when the last program of its job has.

Programs and the store meet at a socket of the abstract namespace, whose name follows from the
user, the pack and the folder, so that a node's processes share one store. A request is 8 bytes, the
table's id and the number of a file, or JOIN: then the answer is the table's path, and the store
lasts as long as the process that asked. An answer is an error number and, with 0, a descriptor.
CREATE and CLOSE come with the descriptor of a file that a program writes (outputs.py); CREATE with
its path, and CLOSE is followed by a byte when the program has closed its own: 1 if all is well. To
OPEN_STILL it says in another byte whether it has the file mapped. SETTLE is answered when all files
have names that are complete.

    O1  A name that is bound is a store's that listens or will; who is refused asks again, and binds
        the name himself when it is free.
    O2  A process that has joined has a store: the last look for those that want to join comes
        behind the end of the last one that has, and whoever connects behind it is refused.
    O3  What is handed over was compared with its checksum, and cannot be changed.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from horovod_opt.io.errors import DataError
from horovod_opt.io.index.pack_index import PackIndex
from horovod_opt.io.overlay import contents
from horovod_opt.io.overlay.counters import Counters
from horovod_opt.io.overlay.file_table import Overlay, Tree, table_bytes
from horovod_opt.io.overlay.outputs import OPEN_STILL, Destination, Outputs
from horovod_opt.io.overlay.peers import Peers

REQUEST = struct.Struct("=II")
ANSWER = struct.Struct("=i")
CREDENTIALS = struct.Struct("=iII")
JOIN, CREATE, CLOSE, SETTLE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFC
MOST_ASKED = 8 << 10  # bytes of a request
PATIENCE = 60.0  # seconds that a program has for its next word
WAIT = 0.1  # seconds until those are looked at who write on when the job's programs have ended
THREADS = 16  # requests at a time; more wait
MOST_SAID = 10  # lines on stderr: of a node that is lost each file would be one


class Store:
    """`parts`: where tars lie on this node; `peers` have the others. `roots`: as in Overlay. `to`:
    where what programs write comes to, None where they may not."""

    def __init__(self, listener: socket.socket, name: str, pack: PackIndex,
                 parts: list[str | None], roots: list[str], peers: Peers,
                 to: Destination | None = None):
        self._listener, self._pack, self._parts = listener, pack, parts
        self._peers = peers
        self._tree = Tree(pack)
        self._counters = Counters()
        self._id = int.from_bytes(os.urandom(4), "little")
        self._said = itertools.count()
        self._outputs = Outputs(to, peers, self._say) if to else None
        written = ((self._outputs.folder, self._outputs.device, self._outputs.has_unnamed)
                   if self._outputs else ())
        here = f"/proc/{os.getpid()}/fd"
        table = table_bytes(pack, self._tree, Overlay(
            roots, parts, name, f"{here}/{self._counters.fd}", self._id, os.getuid(), os.getgid(),
            *written))
        self._table_path = f"{here}/{contents.sealed(self._id, 0, table)}"
        self._selector = selectors.DefaultSelector()
        self._joined = 0
        self._has_ended = False  # one that had joined

    def counters(self) -> dict[str, int]:
        """Of all programs of this node, and of the store."""
        return {**self._counters.values(), **self._peers.counters,
                **(self._outputs.counters if self._outputs else {})}

    def listen(self) -> None:
        """From now on others are answered."""
        self._listener.listen(1024)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        if self._outputs:
            self._selector.register(self._outputs.events, selectors.EVENT_READ,
                                    lambda _: self._outputs.take_events(self._pool.submit))

    def run(self) -> None:
        """Until the last process that has joined has ended, and what others still write."""
        with ThreadPoolExecutor(THREADS) as self._pool:
            is_over = False
            while not is_over:
                # O2: a last look, at what has come meanwhile.
                is_idle = self._has_ended and not self._joined
                if is_idle and self._outputs and self._outputs.is_pending():
                    is_idle, wait = False, WAIT
                else:
                    wait = 0 if is_idle else None
                events = self._selector.select(wait)
                for key, _ in events:
                    key.data(key.fileobj)
                is_over = is_idle and not events
            for key in list(self._selector.get_map().values()):
                self._selector.unregister(key.fileobj)
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.close()
        if self._outputs:
            self._outputs.end(self._id)

    def leave(self) -> None:
        """Returns when no other node's store needs this one."""
        self._peers.leave()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                connection, _ = listener.accept()
                self._selector.register(connection, selectors.EVENT_READ, self._take_request)

    def _take_request(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        fds: list[int] = []
        try:
            pid, uid = _process_behind(connection)
            request, fds, _, _ = socket.recv_fds(connection, MOST_ASKED, 1)
            table, number = REQUEST.unpack_from(request)
        except (OSError, struct.error):
            uid, table, number, request = -1, 0, 0, b""
        is_output = self._outputs and number in (CREATE, CLOSE) and table == self._id and fds
        if uid not in (os.getuid(), 0):
            connection.close()
        elif number == JOIN:
            self._join(connection, pid)
        elif self._outputs and number == SETTLE:
            self._pool.submit(self._settle, connection)
        elif is_output and number == CREATE:
            self._pool.submit(self._create_output, connection, fds.pop(), request[REQUEST.size:])
        elif is_output:
            self._selector.register(connection, selectors.EVENT_READ,
                                    partial(self._close_output, fds.pop()))
        else:
            self._pool.submit(self._answer, connection, table, number)
        for fd in fds:
            os.close(fd)

    def _close_output(self, fd: int, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        try:
            word = connection.recv(1)
        except OSError:
            word = b""
        if word:
            self._pool.submit(self._end_output, connection, fd, word == b"\1")
        else:  # killed in between
            connection.close()
            os.close(fd)

    def _create_output(self, connection: socket.socket, fd: int, path: bytes) -> None:
        with connection, suppress(OSError):
            connection.send(ANSWER.pack(_number_of(self._outputs.create, fd, path)))

    def _end_output(self, connection: socket.socket, fd: int, is_well: bool) -> None:
        status = os.fstat(fd)
        with connection, suppress(OSError):
            error = _number_of(self._outputs.close, fd, is_well)
            connection.send(ANSWER.pack(error))
            if error == OPEN_STILL:
                connection.settimeout(PATIENCE)
                if connection.recv(1) == b"\1":
                    self._outputs.note_mapping((status.st_dev, status.st_ino))
                connection.send(ANSWER.pack(0))

    def _settle(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._outputs.settle()
            connection.send(ANSWER.pack(0))

    def _join(self, connection: socket.socket, pid: int) -> None:
        with connection:
            try:
                process = os.pidfd_open(pid)
            except ProcessLookupError:
                return
            self._selector.register(process, selectors.EVENT_READ, self._leave)
            self._joined += 1
            with suppress(OSError):
                connection.send(self._table_path.encode())

    def _leave(self, process: int) -> None:
        self._selector.unregister(process)
        os.close(process)
        self._joined -= 1
        self._has_ended = True

    def _answer(self, connection: socket.socket, table: int, number: int) -> None:
        error, fds = errno.EIO, []
        with connection:
            try:
                row = self._tree.rows[number] if table == self._id else -1
                if row < 0:
                    raise DataError("a request for what no table of this store has")
                fds = [contents.sealed(self._id, number, self._contents_of(row))]
                error = 0
            except DataError as failure:
                self._say(str(failure))
            except OSError as failure:
                error = failure.errno or errno.EIO
            except Exception:
                traceback.print_exc()
            with suppress(OSError):
                socket.send_fds(connection, [ANSWER.pack(error)], fds)
            for fd in fds:
                os.close(fd)

    def _say(self, failure: str) -> None:
        if next(self._said) < MOST_SAID:
            print(f"horovod-opt: {failure}", file=sys.stderr, flush=True)

    def _contents_of(self, row: int) -> bytes:
        part = self._parts[int(self._pack.file[row])]
        stored = (contents.read_stored(self._pack, row, part) if part
                  else self._peers.take_stored(row))
        return contents.expand(self._pack, row, stored)


def _number_of(what: Callable[..., int], *arguments) -> int:
    """The number of the error, 0 for none."""
    try:
        return what(*arguments)
    except OSError as failure:
        return failure.errno or errno.EIO
    except Exception:
        traceback.print_exc()
        return errno.EIO


def _process_behind(connection: socket.socket) -> tuple[int, int]:
    """Its number and its user's."""
    pid, uid, _ = CREDENTIALS.unpack(connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return pid, uid


def bind(name: str) -> socket.socket | None:
    """The socket of a store that shall be; None: there is one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(b"\0" + name.encode())
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return listener


def join(name: str, patience: float) -> str | None:
    """The table's path; from now on the store lasts until this process ends. None: the store has
    ended. Raises DataError where the name is another user's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(patience)
        try:
            connection.connect(b"\0" + name.encode())
            _, uid = _process_behind(connection)
            if uid not in (os.getuid(), 0):
                raise DataError(f"the socket @{name} is of the user with the number {uid}; remedy: "
                                "ask who that is, or use another folder for --at")
            connection.send(REQUEST.pack(0, JOIN))
            return connection.recv(4096).decode() or None
        except (ConnectionError, socket.timeout):
            return None


def begin(listener: socket.socket, make: Callable[[], Store], counters: Path | None) -> None:
    """Starts the store of `listener` as a process of its own, which no signal of the terminal
    ends, and waits until it listens. `make` is called there, and the store's counters come to the
    file `counters` at its end. Raises DataError where there is nothing to make it of."""
    sys.stdout.flush()
    sys.stderr.flush()
    answer, said = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
            os.close(answer)
            _run(listener, make, counters, said)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    listener.close()
    os.close(said)
    os.waitpid(child, 0)
    with open(answer, "rb") as file:
        text = file.read().decode()
    if text != "ready":
        raise DataError(text or "the store has ended before it began, see above")


def _run(listener: socket.socket, make: Callable[[], Store], counters: Path | None,
         said: int) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.chdir("/")
    try:
        store = make()
        store.listen()
    except DataError as error:
        os.write(said, str(error).encode())
        return
    os.write(said, b"ready")
    os.close(said)
    try:
        store.run()
    finally:
        store.leave()
    if counters is not None:
        draft = counters.with_name(f".{counters.name}.{os.getpid()}")
        draft.write_text(json.dumps(store.counters()) + "\n")
        draft.replace(counters)
