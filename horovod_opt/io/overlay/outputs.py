"""What programs of a node write below the folder: files of a folder of real storage.

A file that a program makes has no name at first (O_TMPFILE), or a hidden one where the file system
has no such files. A program that closes it, or ends with it open, says so to the store, and the
store gives it its name when the last descriptor is closed. A killed program says nothing.

    W1  A name has one writer at a time, of all nodes: its owner, one of the stores, says which
        (peers.py). To others it is there already.
    W2  Who says that he closes a file hands a descriptor over, and closes his own before he says
        that it is done: so no file is closed for good before the store knows who has closed it.
    W3  A file whose last descriptor has gone unsaid is dropped: that is said, and nothing is left.
        One that was closed while it was mapped is complete when it is not mapped any more.
    W4  With `durable`, contents are synced before the file has its name, the folders afterwards,
        and then close() returns.
    W5  What had the name before is there until the new file is complete, and then not any more.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.overlay.peers import Peers

DRAFT = ".horovod-opt-draft-"  # csrc/io/overlay/outputs.h knows it, too
EVENT = struct.Struct("=iIII")  # of inotify(7), before a name
IN_CLOSE_WRITE = 8
OPEN_STILL = -1  # what a program hears that has closed a file, where others have it open
KILLED = "the program that wrote it was killed, or closed it in a way that is not seen"
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Destination:
    """`folder`: where files of programs come to; `durable`: synced before they have names."""

    folder: Path
    durable: bool

    def check(self, pack: Path, roots: list[str]) -> None:
        """Raises InputError for a folder that nothing can be written to, or that is one with the
        pack's or the programs' own."""
        if not self.folder.is_dir():
            raise InputError(f"--outputs {self.folder}: no folder; remedy: make it, on storage "
                             "that all nodes see")
        own = os.path.realpath(self.folder)
        for other in (os.path.realpath(pack), *roots):
            if os.path.commonpath([own, other]) in (own, other):
                raise InputError(f"--outputs {self.folder}: {other} is inside of it, or around it; "
                                 "remedy: a folder apart")

    def __str__(self) -> str:
        return f"{os.path.realpath(self.folder)}{', durable' if self.durable else ''}"


@dataclass
class _Output:
    """`place`: a descriptor that names the file (O_PATH); `reader`: one that can be asked whether
    somebody still has it open to write, or -1."""

    path: str
    key: tuple[int, int]
    draft: str | None
    replaces: bool
    place: int = -1
    reader: int = -1
    watch: int = -1
    is_gone: bool = False  # the kernel has told of a descriptor's end
    is_mapped: bool = False  # and closed: no program will say that it is complete
    has_name: bool = False
    failure: int = 0

    def release(self) -> None:
        for fd in (self.place, self.reader):
            if fd >= 0:
                os.close(fd)


class Outputs:
    """`say` gets lines for the user. Raises DataError where nothing can be written to `to`."""

    def __init__(self, to: Destination, peers: Peers, say: Callable[[str], None]):
        self.folder = os.path.realpath(to.folder)
        self._durable, self._peers, self._say = to.durable, peers, say
        self.counters = {"outputs": 0, "outputs_dropped": 0}
        self._lock = threading.Lock()  # of all below
        self._ended = threading.Condition(self._lock)
        self._ending = 0  # files that are complete, or dropped, and not yet done with
        self._by_file: dict[tuple[int, int], _Output] = {}
        self._by_watch: dict[int, _Output] = {}
        self.has_unnamed, self.device, self._has_leases = _look_at(self.folder)
        self.events = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.events < 0:
            raise DataError(f"inotify: {os.strerror(ctypes.get_errno())}; remedy: a higher limit, "
                            "sysctl fs.inotify.max_user_instances")

    def is_pending(self) -> bool:
        with self._lock:
            return bool(self._by_file)

    def create(self, fd: int, request: bytes) -> int:
        """The program has made the file `fd`, which shall be `request`: "x" or "-" for exclusively
        or not, and its path. Returns an error's number."""
        path = os.fsdecode(request[1:])
        status = os.fstat(fd)
        output = _Output(path, (status.st_dev, status.st_ino), None, False)
        if not self.has_unnamed:
            output.draft = os.readlink(f"/proc/self/fd/{fd}")
        error = self._claim(path)
        if not error:
            output.replaces = os.path.lexists(path)
            if output.replaces and request[:1] == b"x":
                error = errno.EEXIST
            error = error or self._watch(output, fd)
            if error:
                self._peers.free(path)
        if error:
            output.release()
            self._remove_draft(output)
        self._close(fd)
        return error

    def _claim(self, path: str) -> int:
        try:
            return 0 if self._peers.claim(path) else errno.EEXIST
        except DataError as failure:
            self._say(str(failure))
            return errno.EIO

    def _watch(self, output: _Output, fd: int) -> int:
        own = f"/proc/self/fd/{fd}"
        try:
            output.place = os.open(own, os.O_PATH | os.O_CLOEXEC)
            if self._has_leases:
                with suppress(PermissionError):
                    output.reader = os.open(own, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as failure:
            return failure.errno
        with self._lock:
            output.watch = _libc.inotify_add_watch(self.events, own.encode(), IN_CLOSE_WRITE)
            if output.watch < 0:
                return ctypes.get_errno()
            self._by_file[output.key] = self._by_watch[output.watch] = output
        return 0

    def close(self, fd: int, is_well: bool) -> int:
        """The program has closed a descriptor of which `fd` is another one. Returns the number of
        the error that the program's close() ends with; OPEN_STILL where there are others."""
        status = os.fstat(fd)
        failure = 0
        if self._durable and is_well:
            try:
                os.fsync(fd)
            except OSError as error:
                failure = error.errno or errno.EIO
        with self._lock:
            output = self._by_file.get((status.st_dev, status.st_ino))
            if output is not None and not output.failure:
                output.failure = failure or (0 if is_well else errno.EIO)
        if self._close(fd, (status.st_dev, status.st_ino)) is not None:
            return self._complete(output)
        return failure or (0 if output is None else OPEN_STILL)

    def note_mapping(self, key: tuple[int, int]) -> None:
        """The program that has closed it has it mapped, and no descriptor more."""
        with self._lock:
            output = self._by_file.get(key)
            if output is not None:
                output.is_mapped = True

    def _complete(self, output: _Output) -> int:
        failure = output.failure
        try:
            if failure:
                self._drop(output, f"{os.strerror(failure)} when it was written")
            else:
                self._name(output)
        except OSError as error:
            failure = error.errno or errno.EIO
            self._drop(output, f"{error.strerror} when it was to get its name")
        return failure

    def _end(self, output: _Output) -> None:
        """Of one that nobody said to be closed."""
        if output.is_mapped:
            self._complete(output)
        else:
            self._drop(output, KILLED)

    def take_events(self, run: Callable[..., object]) -> None:
        """What the kernel tells of: files that were closed unsaid are dropped (W3), by `run`."""
        for output in self._gone():
            run(self._end, output)

    def settle(self) -> None:
        """Returns when what the kernel has told of is done with."""
        self._close(-1)
        with self._ended:
            self._ended.wait_for(lambda: not self._ending)

    def end(self, table: int) -> None:
        """No program is left; drafts that were made and never told of have the table's number."""
        for draft in glob.glob(os.path.join(glob.escape(self.folder), f"{DRAFT}{table:08x}-*")):
            with suppress(OSError):
                os.unlink(draft)

    def _close(self, fd: int, key: tuple[int, int] | None = None) -> _Output | None:
        """Closes `fd`, and returns the output of `key`, which is to be finished, if that was its
        last descriptor. All others that have none are dropped."""
        finished = None
        for output in self._gone(fd):
            if output.key == key:
                finished = output
            else:
                self._end(output)
        return finished

    def _gone(self, fd: int = -1) -> list[_Output]:
        """Those that, after `fd` was closed, nobody has open. It is for the caller to end them."""
        with self._lock:
            if fd >= 0:
                os.close(fd)
            self._read_events()
            gone = [output for output in self._by_file.values() if self._has_gone(output)]
            for output in gone:
                del self._by_file[output.key]
                del self._by_watch[output.watch]
                _libc.inotify_rm_watch(self.events, output.watch)
            self._ending += len(gone)
        return gone

    def _read_events(self) -> None:
        with suppress(BlockingIOError):
            while True:
                data = os.read(self.events, 64 << 10)
                place = 0
                while place < len(data):
                    watch, _, _, length = EVENT.unpack_from(data, place)
                    place += EVENT.size + length
                    if watch in self._by_watch:
                        self._by_watch[watch].is_gone = True

    def _has_gone(self, output: _Output) -> bool:
        """One that was opened once more, as /dev/stdout is, has descriptors that tell of their ends
        each; then who can say so is asked."""
        if not output.is_gone or output.reader < 0:
            return output.is_gone
        try:
            fcntl.fcntl(output.reader, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError:
            output.is_gone = False
            return False
        fcntl.fcntl(output.reader, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return True

    def _name(self, output: _Output) -> None:
        source = output.draft
        if output.replaces and source is None:
            source = os.path.join(os.path.dirname(output.path), DRAFT + os.urandom(8).hex())
            _link(output.place, source)
            output.draft = source
        if output.replaces:
            os.replace(source, output.path)
        elif source is not None:
            os.link(source, output.path)
            os.unlink(source)
        else:
            _link(output.place, output.path)
        output.draft, output.has_name = None, True
        if self._durable:
            self._sync_folders(output.path)
        self._count("outputs")
        self._finish(output)

    def _sync_folders(self, path: str) -> None:
        while path != self.folder:
            path = os.path.dirname(path)
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _drop(self, output: _Output, why: str) -> None:
        self._say(f"{output.path}: {'not synced' if output.has_name else 'not kept'}: {why}")
        self._count("outputs_dropped")
        self._remove_draft(output)
        self._finish(output)

    def _finish(self, output: _Output) -> None:
        output.release()
        with suppress(DataError):  # its owner has gone, and with it who would care
            self._peers.free(output.path)
        with self._ended:
            self._ending -= 1
            self._ended.notify_all()

    def _remove_draft(self, output: _Output) -> None:
        if output.draft is not None:
            with suppress(OSError):
                os.unlink(output.draft)

    def _count(self, name: str) -> None:
        with self._lock:
            self.counters[name] += 1


def _link(file: int, path: str) -> None:
    # Python follows the link in /proc only where it is told of a folder, too.
    folder = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _look_at(folder: str) -> tuple[bool, int, bool]:
    """Whether files there need no name; their device; whether leases say who has them open."""
    try:
        file, has_unnamed = _open_draft(folder)
    except OSError as error:
        raise DataError(f"--outputs {folder}: {error.strerror}; remedy: a folder that this user "
                        "may write to") from error
    try:
        device = os.fstat(file).st_dev
        reader = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(file)
    try:
        fcntl.fcntl(reader, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        return has_unnamed, device, True
    except OSError:
        return has_unnamed, device, False
    finally:
        os.close(reader)


def _open_draft(folder: str) -> tuple[int, bool]:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), True
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise
    draft = os.path.join(folder, DRAFT + os.urandom(8).hex())
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(draft)
    return file, False
