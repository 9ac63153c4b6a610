"""Who writes a rank's parts: one process at a time, so that two jobs do not take one folder.

POSIX record locks: network file systems know them, too, a forked process has none of them, and they
end with their process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import warnings
from pathlib import Path

from horovod_opt.io.errors import InputError

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_held: set[tuple[int, int]] = set()  # of this process, which its own locks do not keep out
_mutex = threading.Lock()


class Lock:
    """Raises InputError: another process, or another object of this one, has it."""

    def __init__(self, folder: Path, rank: int):
        path = folder / f".lock-{rank}"
        self._pid = os.getpid()
        with _mutex:
            # Closing any descriptor of the file would end this process's lock: look before opening.
            if path.exists() and _key(os.stat(path)) in _held:
                raise _refusal(folder, rank, "this process")
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    os.close(self._file)
                    raise _refusal(folder, rank, "another process") from error
                warnings.warn(f"{path}: its file system has no locks ({error}), so two jobs with "
                              "this folder would not notice each other", stacklevel=2)
            self._key = _key(os.fstat(self._file))
            _held.add(self._key)

    def release(self) -> None:
        with _mutex:
            if self._key in _held and os.getpid() == self._pid:
                _held.discard(self._key)
                os.close(self._file)


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _refusal(folder: Path, rank: int, who: str) -> InputError:
    return InputError(f"{who} already writes the parts of rank {rank} in {folder}: a second job, "
                      "a drain, or a buffer that was not closed; remedy: a folder for each job, or "
                      "wait for its end")
