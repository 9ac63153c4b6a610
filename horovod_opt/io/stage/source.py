"""Where data is staged from: a folder, or whatever fsspec opens (https://, s3://, gs:// ...)."""

from __future__ import annotations

import glob
import hashlib
import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from horovod_opt.io.errors import DataError, InputError

PIECE = 8 << 20  # bytes of a request
NOT_THERE = (403, 404, 410)  # of HTTP; a bucket that must not be listed says 403 of what it lacks
_PROTOCOL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class RemoteFile(NamedTuple):
    """A file of a source: name there, size, and what changes when its contents do."""

    name: str
    size: int
    version: str


class Source(Protocol):
    """`where` it is, as the user gave it."""

    where: str

    def find(self, pattern: str) -> list[RemoteFile]:
        """The files that a path or a glob names; none if there are none."""

    def read(self, name: str, begin: int, end: int) -> bytes:
        """Bytes of a file. Raises DataError where that cannot be."""


def is_url(text: str) -> bool:
    """Whether fsspec is needed for it."""
    return _PROTOCOL.match(text) is not None


def is_chain_of_one_kind(text: str) -> bool:
    """Whether these are addresses of one kind joined by ::, by which WebDataset means several.
    fsspec means one that is within another, as zip://a.tar::s3://bucket/a.zip."""
    kinds = [kind[0] for part in text.split("::") if (kind := _PROTOCOL.match(part))]
    return len(kinds) > len(set(kinds))


def open_source(where: str) -> Source:
    """Raises InputError for a URL that nothing installed can open."""
    return _Url(where) if is_url(where) else _Folder(where)


class _Folder:
    def __init__(self, where: str):
        self.where = where

    def find(self, pattern: str) -> list[RemoteFile]:
        with _errors_of(pattern):
            paths = [pattern] if os.path.lexists(pattern) else glob.glob(pattern, recursive=True)
            found = [(os.path.abspath(path), os.stat(path)) for path in sorted(paths)
                     if os.path.isfile(path)]
        return [RemoteFile(path, status.st_size, str(status.st_mtime_ns))
                for path, status in found]

    def read(self, name: str, begin: int, end: int) -> bytes:
        with _errors_of(name), open(name, "rb", buffering=0) as file:
            pieces = []
            while begin < end and (piece := os.pread(file.fileno(), end - begin, begin)):
                pieces.append(piece)
                begin += len(piece)
            return b"".join(pieces)


class _Url:
    def __init__(self, where: str):
        self.where = where
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise InputError(f"{where} needs fsspec: {error}; remedy: pip install "
                             "'horovod-opt[remote]'") from error
        try:
            self._files, _ = url_to_fs(where)
        except (ImportError, ValueError) as error:
            raise InputError(f"{where} cannot be opened: {error}; remedy: pip install what fsspec "
                             "needs for it, such as s3fs or gcsfs") from error

    def find(self, pattern: str) -> list[RemoteFile]:
        path = self._files._strip_protocol(pattern)
        with _errors_of(pattern):
            names = sorted(self._files.glob(path)) if glob.has_magic(path) else [path]
            infos = []
            for name in names:
                try:
                    infos.append((name, self._files.info(name)))
                except FileNotFoundError as error:  # also what a server that is not there becomes
                    cause = error.__cause__
                    if getattr(cause, "status", 0) not in NOT_THERE and not isinstance(
                            cause, (type(None), FileNotFoundError)):
                        raise cause from None
        return [RemoteFile(name, _size(name, info), _version(info)) for name, info in infos
                if info["type"] == "file"]

    def read(self, name: str, begin: int, end: int) -> bytes:
        if begin >= end:
            return b""
        with _errors_of(name):
            return self._files.cat_file(name, start=begin, end=end)


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """What goes wrong is a DataError: each kind of file system has errors of its own."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{name}: cannot be read: {type(error).__name__}: {text}; remedy: correct "
                        "the address or the permissions; what was staged stays, so start again"
                        ) from error


def _size(name: str, info: dict[str, Any]) -> int:
    if not isinstance(info.get("size"), int):
        raise DataError(f"{name}: its server does not say how large it is; remedy: copy it to a "
                        "disk, or to another server")
    return info["size"]


def _version(info: dict[str, Any]) -> str:
    """Of the contents, as far as the server says it."""
    known = {key.lower(): value for key, value in info.items()}
    for key in ("etag", "md5hash", "generation", "lastmodified", "mtime", "updated", "created"):
        if known.get(key):
            return str(known[key])
    return ""


def join(where: str, name: str) -> str:
    """A file in a folder or below a URL."""
    return posixpath.join(where, name) if is_url(where) else os.path.join(where, name)


def hash_of(text: str) -> str:
    """For names of files."""
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=6).hexdigest()
