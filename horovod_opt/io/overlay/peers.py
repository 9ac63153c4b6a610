"""The stores of a job's nodes: each has some tars, and asks the others for what is in theirs.

They meet by files in a folder that all nodes see, of mode 0600: address, secret, and which tars.
A request is the number of a row, and the answer what the tar has of that file: one round trip, over
a connection that both ends have proven to know the secret for (multiprocessing.connection). Files
of earlier jobs do no harm, as nobody answers there.

    P1  A store answers until every other one needs nothing more or has died: each has a connection
        to each other one that says so, DONE or its end.
    P2  What comes is compared with the checksum of the index before a program sees it; another
        home is asked where it differs.
    P3  Of what programs write each path has an owner, the same store for all, which gives it to one
        node's store until that frees it, or dies.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import struct
import sys
import threading
import time
from binascii import crc32
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from pathlib import Path

from horovod_opt.io.errors import DataError
from horovod_opt.io.index.pack_index import PackIndex
from horovod_opt.io.job.own_address import own_address
from horovod_opt.io.overlay import contents

SAY_AFTER = 5.0  # seconds of waiting for other nodes' stores
RETRY = 0.1  # seconds
CONNECT = 2.0  # seconds, of a node that may be gone
PROOF, MOST_UNPROVEN = 5, 64  # seconds that a proof may take, and how many at a time
ALIVE = (30, 10, 3)  # seconds of silence, between questions, and how many: then a node is gone
KEPT, DONE = b"kept ", b"done"  # a connection that tells of its store's end, and what it says
CLAIM, FREE = b"claim ", b"freed "  # before a store's name, a zero and a path
MOST_ASKED = 8 << 10  # bytes of a request


@dataclass(frozen=True)
class Place:
    """How many `nodes` there are; `meet` is a folder that all of them see, None for one node.
    `patience`: seconds until all have come. `outputs`: where programs write, as each says it.
    `job`: what tells jobs apart that meet in one folder; "": nothing does."""

    nodes: int = 1
    meet: Path | None = None
    patience: float = 600.0
    outputs: str = ""
    job: str = ""


@dataclass
class _Peer:
    address: tuple[str, int]
    secret: bytes
    idle: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)

    def ask(self, request: bytes) -> bytes:
        """Raises OSError, EOFError, AuthenticationError: it cannot be reached; DataError: it
        cannot read the file."""
        try:
            connection = self.idle.get_nowait()
        except queue.Empty:
            connection = Client(self.address, authkey=self.secret)
        try:
            connection.send_bytes(request)
            answer = connection.recv_bytes()
        except BaseException:
            connection.close()
            raise
        self.idle.put(connection)
        if answer[:1] != b"\0":
            raise DataError(answer[1:].decode(errors="replace"))
        return answer[1:]


class Peers:
    """This node's store among those of the job. Raises DataError where tars lie on no node, or
    other nodes do not come."""

    def __init__(self, pack: PackIndex, parts: list[str | None], place: Place):
        self._pack, self._parts = pack, parts
        self._lock = threading.Lock()
        self.counters = {"opens_remote": 0, "round_trips": 0, "remote_bytes": 0, "served_bytes": 0}
        self._homes: list[list[_Peer]] = [[] for _ in parts]  # of each tar
        self.own_file: Path | None = None
        self._kept: list[Connection] = []
        self._needy: set[str] = set()  # stores that may still ask
        self._owners: dict[str, _Peer | None] = {"": None}  # by their stores' names; None: this
        self._claims: dict[bytes, str] = {}  # of the paths that this store owns: who has it
        self._changed = threading.Condition(self._lock)
        missing = [name for name, part in zip(pack.names, parts) if part is None]
        if place.nodes == 1 and missing:
            raise DataError(f"of the pack's {len(parts)} tars {len(missing)} are not on this node, "
                            f"as {missing[0]}; remedy: horovod-opt io stage --replicas all, or "
                            "--meet a folder that all nodes see, where other nodes have them")
        if place.nodes > 1:
            self._meet(place)

    def take_stored(self, row: int) -> bytes:
        """What the tar has of a file of other nodes, compared with its checksum."""
        part = int(self._pack.file[row])
        homes = self._homes[part]
        for attempt in range(len(homes)):
            peer = homes[(part + attempt) % len(homes)]
            where = "the store of node {}:{}".format(*peer.address)
            self._count(round_trips=1)
            try:
                stored = peer.ask(row.to_bytes(4, "little"))
                contents.check(self._pack, row, stored, where)
            except (OSError, EOFError, AuthenticationError) as error:
                failure = DataError(f"{self._pack.paths[row]}: {where} does not answer: "
                                    f"{error or type(error).__name__}; remedy: start the job again")
            except DataError as error:
                failure = error
            else:
                self._count(opens_remote=1, remote_bytes=len(stored))
                return stored
        raise failure

    def claim(self, path: str) -> bool:
        """Whether nobody else writes it now; then this node does until it frees it. Raises
        DataError: its owner does not answer."""
        return self._ask_owner(CLAIM, path)

    def free(self, path: str) -> None:
        """Raises DataError: its owner does not answer."""
        self._ask_owner(FREE, path)

    def _owner_of(self, path: str) -> _Peer | None:
        """None: this store."""
        names = sorted(self._owners)
        return self._owners[names[crc32(os.fsencode(path)) % len(names)]]

    def _ask_owner(self, what: bytes, path: str) -> bool:
        owner = self._owner_of(path)
        own = self.own_file.name if self.own_file else ""
        if owner is None:
            return self._note(what, own, os.fsencode(path))
        try:
            return owner.ask(what + own.encode() + b"\0" + os.fsencode(path)) == b"\1"
        except (OSError, EOFError, AuthenticationError) as error:
            raise DataError("{}: the store of node {}:{}, which says who writes it, does not "
                            "answer: {}; remedy: start the job again".format(
                                path, *owner.address, error or type(error).__name__)) from error

    def _note(self, what: bytes, store: str, path: bytes) -> bool:
        with self._lock:
            if what == CLAIM:
                if path in self._claims:
                    return False
                self._claims[path] = store
            elif self._claims.get(path) == store:
                del self._claims[path]
            return True

    def _count(self, **by: int) -> None:
        with self._lock:
            for name, value in by.items():
                self.counters[name] += value

    def _meet(self, place: Place) -> None:
        secret = os.urandom(32)
        address = own_address("--meet")
        listener = socket.create_server((address, 0), backlog=256)
        threading.Thread(target=self._serve, args=(listener, secret), daemon=True).start()
        self.own_file = place.meet / f"store-{os.urandom(8).hex()}.json"
        _publish(self.own_file, {
            "pack": self._pack.fingerprint, "nodes": place.nodes, "secret": secret.hex(),
            "outputs": place.outputs, "job": place.job,
            "address": [address, listener.getsockname()[1]],
            "parts": [k for k, part in enumerate(self._parts) if part]})
        found = {self.own_file}
        self._owners = {self.own_file.name: None}
        end, say = time.monotonic() + place.patience, time.monotonic() + SAY_AFTER
        while True:
            found |= {path for path in sorted(place.meet.glob("store-*.json"))
                      if path not in found and self._found(path, place)}
            if len(found) >= place.nodes:
                break
            if time.monotonic() > end:
                raise DataError(f"{place.meet}: {len(found)} of {place.nodes} nodes' stores have "
                                f"come in {place.patience:.0f} s; remedy: start horovod-opt io run "
                                f"on each node, with one folder for --meet, or give --nodes")
            if time.monotonic() > say:
                say = float("inf")
                print(f"horovod-opt io run: {len(found)} of {place.nodes} nodes' stores have come "
                      f"to {place.meet}; waiting for the others", file=sys.stderr, flush=True)
            time.sleep(RETRY)
        nowhere = [name for name, part, homes in zip(self._pack.names, self._parts, self._homes)
                   if part is None and not homes]
        if nowhere:
            raise DataError(f"of the pack's {len(self._parts)} tars {len(nowhere)} are on none of "
                            f"the {place.nodes} nodes, as {nowhere[0]}; remedy: horovod-opt io "
                            "stage on each of them")

    def leave(self) -> None:
        """This store needs nothing more. Returns when no other one does (P1)."""
        if self.own_file is None:
            return
        for connection in self._kept:
            with suppress(OSError):
                connection.send_bytes(DONE)
        with self._changed:
            self._changed.wait_for(lambda: not self._needy)
        with suppress(OSError):
            self.own_file.unlink()

    def _found(self, path: Path, place: Place) -> bool:
        """Whether the store that has written this answers: one of an earlier job does not."""
        try:
            said = json.loads(path.read_text())
            if said["job"] != place.job:
                return False
            peer = _Peer((said["address"][0], int(said["address"][1])),
                         bytes.fromhex(said["secret"]))
            socket.create_connection(peer.address, CONNECT).close()
            kept = Client(peer.address, authkey=peer.secret)
            kept.send_bytes(KEPT + self.own_file.name.encode())
        except (OSError, EOFError, AuthenticationError, ValueError, LookupError, TypeError):
            return False
        if said["pack"] != self._pack.fingerprint or said["nodes"] != place.nodes:
            raise DataError(f"{path}: a node with another pack, or of {said['nodes']} nodes, not "
                            f"{place.nodes}; remedy: the same on all nodes, in a folder of this "
                            "job alone")
        if said["outputs"] != place.outputs:
            raise DataError(f"{path}: a node with --outputs {said['outputs'] or 'not given'}, not "
                            f"{place.outputs or 'not given'}; remedy: the same on all nodes")
        for k in said["parts"]:
            self._homes[k].append(peer)
        self._owners[path.name] = peer
        self._kept.append(kept)
        with self._lock:
            self._needy.add(path.name)
        threading.Thread(target=self._watch, args=(kept, path.name), daemon=True).start()
        return True

    def _watch(self, connection: Connection, name: str) -> None:
        """Until the other end is done, or has died."""
        _keep_alive(connection)
        with suppress(OSError, EOFError):
            connection.recv_bytes(len(DONE))
        with self._changed:
            self._needy.discard(name)
            for path in [path for path, store in self._claims.items() if store == name]:
                del self._claims[path]
            self._changed.notify_all()

    def _serve(self, listener: socket.socket, secret: bytes) -> None:
        """Those that do not prove soon that they know the secret are bounded in number and time."""
        unproven = threading.BoundedSemaphore(MOST_UNPROVEN)
        while True:
            try:
                connected, _ = listener.accept()
            except OSError:  # no descriptors left, or it has gone again
                time.sleep(RETRY)
                continue
            if unproven.acquire(blocking=False):
                threading.Thread(target=self._serve_peer, args=(connected, secret, unproven),
                                 daemon=True).start()
            else:
                connected.close()

    def _serve_peer(self, connected: socket.socket, secret: bytes,
                    unproven: threading.BoundedSemaphore) -> None:
        _set_patience(connected, PROOF)
        with Connection(connected.detach()) as connection, suppress(
                OSError, EOFError, AuthenticationError):
            try:
                deliver_challenge(connection, secret)
                answer_challenge(connection, secret)
            finally:
                unproven.release()
            with socket.socket(fileno=os.dup(connection.fileno())) as own:
                _set_patience(own, 0)
            while True:
                request = connection.recv_bytes(MOST_ASKED)
                if request.startswith(KEPT):
                    self._watch(connection, request[len(KEPT):].decode())
                    connection.recv_bytes(1)  # its end: this one's would be taken for a death
                connection.send_bytes(self._answer(request))

    def _answer(self, request: bytes) -> bytes:
        if request.startswith((CLAIM, FREE)):
            store, _, path = request[len(CLAIM):].partition(b"\0")
            is_given = self._note(request[:len(CLAIM)], store.decode(), path)
            return b"\0\1" if is_given else b"\0\0"
        row = int.from_bytes(request, "little")
        part = self._parts[int(self._pack.file[row])] if row < len(self._pack.file) else None
        if part is None:
            return b"\1a request for what this node does not have"
        try:
            stored = contents.read_stored(self._pack, row, part)
        except DataError as error:
            return b"\1" + str(error).encode()
        self._count(served_bytes=len(stored))
        return b"\0" + stored


def _set_patience(connected: socket.socket, seconds: int) -> None:
    """For as long one end waits for the other's next bytes; 0: for ever."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", seconds, 0))


def _keep_alive(connection: Connection) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in zip((socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT),
                                 ALIVE):
            own.setsockopt(socket.IPPROTO_TCP, option, value)


def _publish(path: Path, said: dict) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(said, file)
        draft.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written to: {error.strerror}; remedy: a folder that "
                        "all nodes see and this user may write to") from error
