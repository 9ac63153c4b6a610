"""A file mapped at the same address in several processes, so that a pointer into it means the same
in all of them (dissertation, 4.2.1)."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
from collections.abc import Sequence
from typing import Optional

from horovod_lab.io.ladder.links import Links
from horovod_opt.io.errors import DataError

ATTEMPTS = 5
LOWEST, HIGHEST = 1 << 44, 1 << 46  # of addresses that are tried: far from what processes use
FIXED_NOREPLACE = 0x100000  # of Linux 4.17: an address that is taken is refused
FAILED = ctypes.c_void_p(-1).value
ADDRESS = b"a"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                       ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class SymmetricMap:
    """Collective among `ranks`. `address`, the same on all of them; `view`: the file's bytes.

    The first rank tries an address at random and tells the others; if one of them cannot use it,
    all try another. Raises DataError on all ranks where none is free on all of them.
    """

    def __init__(self, path: str, links: Links, ranks: Sequence[int]):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._size = os.fstat(file).st_size
            self.address = self._agree_on_address(file, links, ranks)
        finally:
            os.close(file)
        whole = (ctypes.c_char * self._size).from_address(self.address)
        self.view = memoryview(whole).cast("B")

    def _agree_on_address(self, file: int, links: Links, ranks: Sequence[int]) -> int:
        for _ in range(ATTEMPTS):
            proposal = random.randrange(LOWEST, HIGHEST, mmap.ALLOCATIONGRANULARITY)
            proposals = links.alltoall({rank: proposal.to_bytes(8, "little") for rank in ranks})
            candidate = int.from_bytes(proposals[ranks[0]], "little")
            address = self._map_at(file, candidate)
            answer = b"yes" if address is not None else b"no"
            if set(links.alltoall(dict.fromkeys(ranks, answer)).values()) == {b"yes"}:
                return address
            if address is not None:
                _libc.munmap(address, self._size)
        raise DataError(f"no address of {ATTEMPTS} is free on all {len(ranks)} nodes for "
                        f"{self._size} bytes; remedy: strategy lmm, as the source does")

    def _map_at(self, file: int, address: int) -> Optional[int]:
        result = _libc.mmap(address, self._size, mmap.PROT_READ,
                            mmap.MAP_SHARED | FIXED_NOREPLACE, file, 0)
        if result == FAILED:
            return None
        if result != address:  # a kernel that does not know the flag
            _libc.munmap(result, self._size)
            return None
        return result

    def close(self) -> None:
        """Nobody may hold a view of it any more."""
        self.view.release()
        _libc.munmap(self.address, self._size)
