"""A lock file: of one user's jobs one builds an index, and no other user can hold it up.

Only its owner may open it, so that nobody else can lock it. Whoever holds it touches it now and
then, as a job that is at work; one that does not for SILENT_SECONDS is not waited for.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock

from horovod_opt.io.progress import say

SILENT_SECONDS = 180.0  # times of files are a minute old on some network file systems
TOUCH_SECONDS = 5.0
LOOK_SECONDS = 0.1
_MOST_NAME = 200  # bytes that are read of who holds it


@contextmanager
def hold(path: str) -> Iterator[None]:
    """While no other job of this user builds; what cannot be locked is gone on without: two jobs
    then both build, and the last one's file is kept.

    Raises OSError if nothing can be written where the file is.
    """
    file = _open(path)
    if file is not None:
        file = _acquire(path, file)
    if file is None:
        yield
        return
    with suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
    stop = threading.Event()
    thread = threading.Thread(target=_touch, args=(file, stop), name="hio-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if _is_at(path, file):
            with suppress(OSError):
                os.unlink(path)
        os.close(file)


def _open(path: str) -> int | None:
    """None where the file is another user's, or none that could be locked."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
                       0o600)
    except OSError:
        if os.access(os.path.dirname(path), os.W_OK | os.X_OK, effective_ids=True):
            return None
        raise
    status = os.fstat(file)
    if status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode):
        with suppress(OSError):
            if stat.S_IMODE(status.st_mode) & 0o077:  # of an earlier version
                os.fchmod(file, 0o600)
            return file
    os.close(file)
    return None


def _acquire(path: str, file: int) -> int | None:
    """The file, locked; None if whoever holds it does nothing."""
    last_touch, since, has_said = -1, 0.0, False
    while True:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            pass
        except OSError:  # a file system without locks
            return file
        else:
            if _is_at(path, file):
                return file
            os.close(file)  # removed by the one that held it
            new_file = _open(path)
            if new_file is None:
                return None
            file = new_file
            continue
        now, touch = time.monotonic(), os.fstat(file).st_mtime_ns
        if touch != last_touch:
            last_touch, since = touch, now
        if now - since > SILENT_SECONDS:
            say(f"{path}: {_holder(file)} holds this lock, but has done nothing for "
                f"{SILENT_SECONDS:g} s: going on without it")
            os.close(file)
            return None
        if not has_said:
            has_said = True
            say(f"{path}: {_holder(file)} builds this index: waiting for it")
        time.sleep(LOOK_SECONDS)


def _touch(file: int, stop: threading.Event) -> None:
    while not stop.wait(TOUCH_SECONDS):
        with suppress(OSError):
            os.utime(file)


def _holder(file: int) -> str:
    try:
        text = os.pread(file, _MOST_NAME, 0).decode(errors="replace")
    except OSError:
        text = ""
    return text if text and text.isprintable() else "another process"


def _is_at(path: str, file: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(file))
    except OSError:
        return False
