"""A program with the files of a pack: the node's store begins or is joined, then the program takes
this process' place, so that its signals and its end are its own."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.formats import compression, pack_folder
from horovod_opt.io.index import pack_index
from horovod_opt.io.native import beside_library
from horovod_opt.io.overlay import program, store
from horovod_opt.io.overlay.outputs import Destination
from horovod_opt.io.overlay.peers import Peers, Place

LIBRARY = "libhorovod_opt_overlay.so"
PATIENCE = 600.0  # seconds until a store listens: its table may be of millions of files


def run(pack: Path, at: str, place: Place, to: Destination | None, counters: Path | None,
        command: Sequence[str]) -> NoReturn:
    """Never returns: this process becomes `command`. Raises InputError for what cannot be started
    so, DataError for a pack that is not all there."""
    library = beside_library(LIBRARY)
    path = program.require_dynamic(command[0], os.environ)
    roots = roots_of(at)
    if to is not None:
        to.check(pack, roots)
        place = replace(place, outputs=str(to))
    table = _join_store(Path(os.path.abspath(pack)), roots, place, to,
                        counters and Path(os.path.abspath(counters)))
    os.execve(path, list(command), program.environment(os.environ, library, table))


def roots_of(at: str) -> list[str]:
    """The folder as it was given, and as the kernel names it, where these differ."""
    given = os.path.normpath(os.path.join(os.getcwd(), at))
    if given == "/" or ".." in Path(at).parts:
        raise InputError(f"--at {at}: no folder that files can be laid over; remedy: an absolute "
                         "path below /, without ..")
    above, name = os.path.split(given)
    real = os.path.realpath(given) if os.path.lexists(given) else os.path.join(
        os.path.realpath(above), name)
    return list(dict.fromkeys([given, real]))


def _join_store(pack: Path, roots: list[str], place: Place, to: Destination | None,
                counters: Path | None) -> str:
    index = pack_index.read(pack / pack_folder.NAME)
    if index.is_compressed:
        compression.require(f"{pack}: a compressed pack")
    name = _socket_name(pack, roots, index.fingerprint, place.outputs)

    def make() -> store.Store:
        parts = local_parts(pack, index)
        return store.Store(listener, name, index, parts, roots, Peers(index, parts, place), to)

    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        table = store.join(name, PATIENCE)
        if table is not None:
            return table
        listener = store.bind(name)
        if listener is not None:
            store.begin(listener, make, counters)
        else:
            time.sleep(0.02)
    raise DataError(f"{pack}: its store on this node does not answer for {PATIENCE:.0f} s; remedy: "
                    "end it (horovod-opt io run, of this user), and start the job again")


def _socket_name(pack: Path, roots: list[str], fingerprint: str, outputs: str) -> str:
    what = "\0".join([os.path.realpath(pack), roots[-1], fingerprint, outputs])
    return f"horovod-opt-{os.getuid()}-{hashlib.sha256(what.encode()).hexdigest()[:32]}"


def local_parts(pack: Path, index: pack_index.PackIndex) -> list[str | None]:
    """Where each tar lies on this node. Raises DataError for one that is cut."""
    parts: list[str | None] = []
    for name, size in zip(index.names, index.file_sizes.tolist()):
        path = pack / name
        try:
            now = path.stat().st_size
        except OSError:
            parts.append(None)
            continue
        if now != size:
            raise DataError(f"{path}: size {size} when packed, now {now}; remedy: bring it again, "
                            "as horovod-opt io stage does")
        parts.append(str(path))
    return parts
