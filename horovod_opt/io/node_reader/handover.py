"""How the ranks of a node and their workers come to the reader's node cache, and notice each
other's end.

The reader listens on an abstract Unix socket: it is in no file system and ends with the reader.
Both sides check that the other one is of the same user (SO_PEERCRED) and knows a secret; the
address, which only the job is told, has them. The connection stays open after the node cache's
descriptor has gone over it. Its end is how a death is noticed: the kernel closes it however a
process ends.

Abstract sockets belong to a network namespace: ranks that have none in common, as in containers of
their own, are nodes of their own.
"""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Sequence

from horovod_opt.io.errors import DataError, ReaderEnded
from horovod_opt.io.node_reader import lifetime

RANK, WORKER = "rank", "worker"
ANSWER_SECONDS = 60  # in which the reader accepts; its Python may be busy
_BACKLOG = 4096
_MOST_BYTES = 256  # of a message
# What accept() fails with where the process or the machine has no room for a connection, and how
# long it is left alone then: nothing tells that there is room again.
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_REST_SECONDS = 0.05


def _abstract(name: str) -> bytes:
    return b"\0" + name.encode()


def _user_of(connection: socket.socket) -> int:
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1]


class HandoverServer:
    """The reader's side: a thread that gives descriptors to all who know the secret.

    `rank_ended(rank)` is called, by that thread, when a rank's connection has ended; nothing when a
    worker's has, for the rank that has started it is told by its own means.
    """

    def __init__(self, files: Sequence[int], ranks: int, rank_ended: Callable[[int], None]):
        name = f"horovod-opt-io-{secrets.token_hex(16)}"
        self._question, self._answer = secrets.token_hex(16), secrets.token_hex(16)
        self.address = f"{name} {self._question} {self._answer}"
        self._files, self._ranks, self._rank_ended = list(files), ranks, rank_ended
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        self._listener.bind(_abstract(name))
        self._listener.listen(_BACKLOG)
        self._stop, self._stop_from = os.pipe2(os.O_CLOEXEC)
        self._is_closed = False
        self._connections: dict[socket.socket, int | None] = {}  # the rank, of a rank's own
        self._selector = selectors.PollSelector()  # no descriptor that a fork would share
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._stop, selectors.EVENT_READ)
        lifetime.let_go_in_children(self)
        self._thread: threading.Thread | None = threading.Thread(
            target=self._run, name="hio-handover", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and all connections, at which members find the reader gone."""
        if self._is_closed:
            return
        self._is_closed = True
        os.write(self._stop_from, b".")
        thread = self._thread
        if thread is not None and threading.current_thread() is not thread:
            thread.join()

    def let_go(self) -> None:
        """In a forked process: the reader's end must be seen though this one lives on."""
        if self._thread is not None:
            self._close_all()

    def _close_all(self) -> None:
        self._listener.close()
        for connection in list(self._connections):
            connection.close()
        os.close(self._stop)
        os.close(self._stop_from)
        self._thread = None

    def _run(self) -> None:
        rests = False
        while True:
            ready = [key.fileobj for key, _ in
                     self._selector.select(_REST_SECONDS if rests else None)]
            if self._stop in ready:
                break
            if rests:
                self._selector.register(self._listener, selectors.EVENT_READ)
                rests = False
            for source in ready:
                if source is not self._listener:
                    self._hear(source)
                elif not self._accept():
                    # The next connection would wake this thread again and again.
                    self._selector.unregister(self._listener)
                    rests = True
        self._close_all()

    def _accept(self) -> bool:
        """False if there is no room for a connection; the taker waits for ANSWER_SECONDS."""
        try:
            connection, _ = self._listener.accept()
        except OSError as error:  # or it is gone again
            return error.errno not in _NO_ROOM
        if _user_of(connection) != os.geteuid():
            connection.close()
            return True
        connection.setblocking(False)
        self._connections[connection] = None
        self._selector.register(connection, selectors.EVENT_READ)
        return True

    def _hear(self, connection: socket.socket) -> None:
        try:
            message = connection.recv(_MOST_BYTES)
        except OSError:
            message = b""
        rank = self._connections[connection]
        if message and rank is None and self._give(connection, message):
            return
        self._selector.unregister(connection)
        connection.close()
        del self._connections[connection]
        if rank is not None:
            self._rank_ended(rank)

    def _give(self, connection: socket.socket, message: bytes) -> bool:
        """Whether it was a good question; then the connection stays."""
        question, _, who = message.decode(errors="replace").partition(" ")
        if not hmac.compare_digest(question.encode(), self._question.encode()):
            return False
        kind, _, number = who.partition(" ")
        rank = int(number) if number.isdigit() else -1
        if not 0 <= rank < self._ranks:
            refusal = f"it has {self._ranks} ranks, and no rank {number}"
        elif kind == RANK and rank in self._connections.values():
            refusal = f"rank {rank} is connected already"
        else:
            refusal = ""
        try:
            if refusal:
                connection.send(f"refused {refusal}".encode())
                return False
            socket.send_fds(connection, [self._answer.encode()], self._files)
        except OSError:
            return False
        if kind == RANK:
            self._connections[connection] = rank
        return True


class HandoverClient:
    """A rank's or worker's side, which gets `count` descriptors, `files`. `connection` must stay
    open as long as the node cache is used.

    Raises ReaderEnded if nobody listens, DataError if the reader refuses or is another user's.
    """

    def __init__(self, address: str, kind: str, rank: int, count: int = 1):
        name, question, answer = address.split(" ")
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(ANSWER_SECONDS)
        self.files: tuple[int, ...] = ()
        try:
            self._ask(name, f"{question} {kind} {rank}")
            self._take(name, answer, count)
        except BaseException:
            self.let_go()
            raise
        self.connection.settimeout(None)
        lifetime.let_go_in_children(self)

    def let_go(self) -> None:
        """Ends the connection, here and in a forked process alike."""
        self.connection.close()

    def _ask(self, name: str, message: str) -> None:
        try:
            self.connection.connect(_abstract(name))
        except OSError as error:
            raise ReaderEnded(
                f"cannot connect to the node's reader at the Unix socket @{name}: {error}; it has "
                "ended, or has no network namespace in common with this rank (containers); "
                "remedy: see the reader's own error, or give the ranks one namespace") from None
        user = _user_of(self.connection)
        if user != os.geteuid():
            raise DataError(f"the Unix socket @{name} belongs to user {user}, not {os.geteuid()}; "
                            "remedy: start all ranks as one user")
        self.connection.send(message.encode())

    def _take(self, name: str, answer: str, count: int) -> None:
        try:
            message, files, _, _ = socket.recv_fds(self.connection, _MOST_BYTES, count,
                                                   socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise ReaderEnded(f"no answer from the node's reader at the Unix socket @{name} within "
                              f"{ANSWER_SECONDS} s: {error}") from None
        text = message.decode(errors="replace")
        if len(files) == count and hmac.compare_digest(message, answer.encode()):
            self.files = tuple(files)
            return
        for file in files:
            os.close(file)
        if text.startswith("refused "):
            raise DataError(f"the node's reader refuses: {text[len('refused '):]}")
        if hmac.compare_digest(message, answer.encode()):
            raise DataError(f"no descriptor came on the Unix socket @{name}; remedy: raise "
                            "ulimit -n")
        raise ReaderEnded(f"the node's reader at the Unix socket @{name} has ended, or does not "
                          "know this job's secret")
