"""One file from a source to a disk: complete and compared, or not there under its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from horovod_opt.io.errors import DataError
from horovod_opt.io.native import crc32c
from horovod_opt.io.stage.source import PIECE, RemoteFile, Source, hash_of


def fetch(source: Source, file: RemoteFile, target: Path, advance: Callable[[int], None],
          crc: int | None = None) -> None:
    """What an interrupted call has left of the same version is gone on with. `crc`: the crc32c
    that it must have, if somebody knows it. Raises DataError where it has another one or another
    size; OSError where `target` cannot be written."""
    draft = draft_of(file, target)
    with open(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b",
              buffering=0) as out:
        done, found = _left(out.fileno(), file.size, advance)
        out.truncate(done)
        out.seek(done)
        while done < file.size:
            data = source.read(file.name, done, min(done + PIECE, file.size))
            if not data:
                break
            found = crc32c(data, found)
            rest = memoryview(data)
            while rest:
                rest = rest[out.write(rest):]
            done += len(data)
            advance(len(data))
        os.fsync(out.fileno())
    if done != file.size or (crc is not None and found != crc):
        draft.unlink()
        what = (f"{done} bytes came of {file.size}" if done != file.size else
                f"its checksum is {found:08x}, and should be {crc:08x}")
        raise DataError(f"{file.name}: {what}; remedy: start again; if that does not help, it is "
                        "damaged where it comes from: copy it there again")
    os.replace(draft, target)


def draft_of(file: RemoteFile, target: Path) -> Path:
    """Where it is until it is complete: another place for another version."""
    return target.with_name(f".{target.name}.{hash_of(f'{file.size} {file.version}')}.part")


def _left(draft: int, size: int, advance: Callable[[int], None]) -> tuple[int, int]:
    """How much is there already, and its checksum."""
    done = crc = 0
    while done < size and (data := os.pread(draft, min(PIECE, size - done), done)):
        crc = crc32c(data, crc)
        done += len(data)
        advance(len(data))
    return done, crc
