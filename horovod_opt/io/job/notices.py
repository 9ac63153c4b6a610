"""Where ranks that wait put notices of it, for others that wait: one that never comes says nothing,
but who else waits tells who it is."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from datetime import timedelta
from hashlib import blake2b
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from horovod_opt.io.job.launcher import job_of_launcher, nodes_of_launcher

ANSWER_SECONDS = 3.0  # of what keeps them
_SCOPE = "horovod_opt.io"


class Notices(Protocol):
    """`are_of_all`: ranks of all nodes see them, not only those of this one. Its methods may raise
    whatever what keeps them does."""

    @property
    def are_of_all(self) -> bool: ...

    def put(self, key: str) -> None: ...

    def remove(self, key: str) -> None: ...

    def has(self, key: str) -> bool: ...


def find_notices() -> Notices:
    """Of the job that this process is in."""
    store = _connect_to_store()
    if store is not None:
        return StoreNotices(store)
    address, port = (os.environ.get(f"HOROVOD_GLOO_RENDEZVOUS_{name}", "")
                     for name in ("ADDR", "PORT"))
    if address and port:
        return LauncherNotices(f"http://{address}:{port}/{_SCOPE}")
    return SocketNotices(job_of_launcher(os.environ) or f"parent {os.getppid()}",
                         nodes_of_launcher(os.environ, unknown=0) == 1)


def _connect_to_store() -> Any:
    """To that by which the ranks of torch.distributed have met, where there is one; beside
    PyTorch's own connection, which a thread has for itself while it waits."""
    torch = sys.modules.get("torch")
    with suppress(Exception):  # of names that PyTorch does not promise
        store = torch.distributed.distributed_c10d._get_default_store()
        while isinstance(store, torch.distributed.PrefixStore):
            store = store.underlying_store
        if isinstance(store, torch.distributed.TCPStore):
            store = torch.distributed.TCPStore(
                store.host, store.port, is_master=False, wait_for_workers=False,
                timeout=timedelta(seconds=ANSWER_SECONDS))
        return store
    return None


class StoreNotices:
    """In the store of torch.distributed."""

    are_of_all = True

    def __init__(self, store: Any):
        self._store = store

    def put(self, key: str) -> None:
        self._store.set(f"{_SCOPE}/{key}", "1")

    def remove(self, key: str) -> None:
        self._store.set(f"{_SCOPE}/{key}", "0")

    def has(self, key: str) -> bool:
        name = f"{_SCOPE}/{key}"
        return self._store.check([name]) and self._store.get(name) == b"1"


class LauncherNotices:
    """In the HTTP server by which the ranks of Horovod have met with Gloo, upstream's as well as
    this project's, which asks for the job's secret."""

    are_of_all = True

    def __init__(self, url: str):
        self._url = url
        self._opener = build_opener(ProxyHandler({}))  # it is a rank's neighbour

    def put(self, key: str) -> None:
        self._ask("PUT", key, b"1")

    def remove(self, key: str) -> None:
        self._ask("PUT", key, b"0")

    def has(self, key: str) -> bool:
        try:
            return self._ask("GET", key) == b"1"
        except HTTPError as error:
            if error.code == 404:
                return False
            raise

    def _ask(self, method: str, key: str, value: bytes | None = None) -> bytes:
        from horovod_opt.launcher import job_secret

        request = Request(f"{self._url}/{key}", value, job_secret.headers(), method=method)
        with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
            return answer.read()


_sockets: dict[str, socket.socket] = {}  # of this process, by name


class SocketNotices:
    """As names of Unix sockets, which end with their process. `are_of_all`: the job has one node
    only."""

    def __init__(self, job: str, are_of_all: bool):
        digest = blake2b(f"{os.geteuid()} {job}".encode(), digest_size=8).hexdigest()
        self._prefix, self.are_of_all = f"\0{_SCOPE}-{digest}", are_of_all

    def put(self, key: str) -> None:
        own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        own.bind(f"{self._prefix}-{key}")
        _sockets[f"{self._prefix}-{key}"] = own

    def remove(self, key: str) -> None:
        _sockets.pop(f"{self._prefix}-{key}").close()

    def has(self, key: str) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            try:
                asking.connect(f"{self._prefix}-{key}")
            except ConnectionRefusedError:
                return False
            return True
