"""The contents of a data set's compressed files, one after the other in one file without a name,
which the node's reader hands over to its ranks."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from horovod_opt.io import memory_limit
from horovod_opt.io.errors import DataError, InputError, TruncatedFile
from horovod_opt.io.formats.unpacked_file import PIECE, UnpackedFile
from horovod_opt.io.index import Index
from horovod_opt.io.index.tasks import run_all
from horovod_opt.io.index.unpacked_index import begins_of
from horovod_opt.io.progress import Meter, ProgressLog, say
from horovod_opt.io.unpacked.unpacked_place import UnpackedPlace


class UnpackedStore:
    """Of the files of `index`, each unpacked by one of `threads` threads.

    A file that has been damaged since it was indexed leaves zeros, where the index has checksums:
    its records are damaged then. Raises DataError for one where it has none, or that has other
    contents by now, and InputError where there is no room.
    """

    def __init__(self, index: Index, place: UnpackedPlace, threads: int):
        self.file = (os.memfd_create("horovod-opt-io-unpacked", os.MFD_CLOEXEC)
                     if place.folder is None else
                     os.open(place.folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600))
        try:
            self._claim(place)
            self._fill(index, threads)
        except BaseException:
            self.close()
            raise

    def _claim(self, place: UnpackedPlace) -> None:
        os.ftruncate(self.file, place.bytes)
        if place.folder is None:  # whose memory is taken as it is written
            return
        try:
            os.posix_fallocate(self.file, 0, place.bytes)
        except OSError as error:
            raise InputError(f"unpack_in={place.folder!r}: no room for "
                             f"{memory_limit.show(place.bytes)}: {error.strerror}; remedy: another "
                             "folder") from error

    def _fill(self, index: Index, threads: int) -> None:
        files = np.flatnonzero(index.unpacked > 0).tolist()
        begins = begins_of(index)
        meter = Meter(ProgressLog("unpacked"), int(index.unpacked[files].sum()))
        with ThreadPoolExecutor(min(threads, os.cpu_count() or 1)) as pool:
            run_all(pool, lambda number: self._unpack(index, number, int(begins[number]), meter),
                    files)
        meter.finish()

    def _unpack(self, index: Index, number: int, begin: int, meter: Meter) -> None:
        path, size = index.path(number), int(index.unpacked[number])
        with UnpackedFile(path) as contents:
            while (position := contents.tell()) < size:
                try:
                    piece = contents.read(min(PIECE, size - position))
                except TruncatedFile as error:
                    if index.crc is None:
                        raise
                    say(f"{error}: it was not so when it was indexed, and its records behind that "
                        "are damaged")
                    return
                if not piece:
                    raise DataError(f"{path}: unpacks to {position} bytes, and to {size} when it "
                                    "was indexed; remedy: horovod-opt io index --rebuild")
                written = 0
                while written < len(piece):
                    written += os.pwrite(self.file, memoryview(piece)[written:],
                                         begin + position + written)
                meter.advance(len(piece))

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.close()
