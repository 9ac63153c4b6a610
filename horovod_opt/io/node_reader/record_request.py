"""What a rank asks its node's cache for: records of samples that were located, as C gets them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from horovod_opt.io import native_table


class LocatedSteps(NamedTuple):
    """Steps that follow each other in the node cache: step first + i has the samples (int64[k])
    before ends[i] (int64[steps]), where they were located, perhaps in another process, as
    steps.Located has it."""

    first: int
    ends: np.ndarray
    samples: np.ndarray
    loads: np.ndarray
    places: np.ndarray
    chunks: np.ndarray


class LocatedRecords:
    """The P records of each sample: how long they are, size int64[k, P], where they begin if they
    come one after the other, and what is to be known to find and to check them: also the chunk or
    parcel, so that nobody takes another one's bytes for theirs."""

    def __init__(self, index, samples: np.ndarray, loads: np.ndarray, places: np.ndarray,
                 chunks: np.ndarray):
        self.size = np.ascontiguousarray(index.size[samples])
        self.are_equal = bool((self.size == self.size[:1]).all())
        ends = np.cumsum(self.size.ravel())
        self.bytes = int(ends[-1]) if len(ends) else 0
        self.begin = ends.reshape(self.size.shape) - self.size
        parts = self.size.shape[1]
        self._chunks = np.repeat(chunks, parts)
        # Of each record, as HioRecords has them.
        self._columns = (
            np.repeat(loads, parts), np.ascontiguousarray(places).ravel(),
            self.size.ravel(),
            None if index.crc is None else np.ascontiguousarray(index.crc[samples]).ravel(),
            np.ascontiguousarray(index.file[samples], np.int32).ravel(),
            np.ascontiguousarray(index.offset[samples], np.int64).ravel())

    def as_native(self) -> native_table.Records:
        """They are used as long as this object is there."""
        records = native_table.Records(self.size.size, *map(address_of, self._columns))
        records.chunks = address_of(self._chunks)
        return records


class RecordRequest:
    """Where records go, and how far that is. `out_places` int64[n]: of each record. `ends`
    int64[steps]: step i has the records before ends[i]; None: they are of one step."""

    def __init__(self, records: LocatedRecords, out_places: np.ndarray,
                 ends: np.ndarray | None = None):
        self.status = np.empty(records.size.size, np.int32)  # of each that was taken (RecordStatus)
        self.progress = native_table.Progress()
        self.records = records.as_native()
        self.records.out_places = out_places.ctypes.data
        self.records.statuses = self.status.ctypes.data
        self.ends = None if ends is None else np.ascontiguousarray(ends)
        self._arrays = (records, out_places)  # they must stay

    def send_to(self, out: np.ndarray | None, origin: int = 0) -> None:
        """The next ones go to `out`, which begins with the place `origin`; None: places are
        addresses."""
        self.records.out, self.records.origin = address_of(out), origin

    @property
    def steps_taken(self) -> int:
        """Steps that were taken, from the first one on."""
        return self.progress.steps

    @property
    def bad(self) -> int:
        """How many of the records that were taken are not good."""
        return self.progress.bad


def address_of(array: np.ndarray | None) -> int | None:
    """Of its data, for C."""
    return None if array is None else array.ctypes.data
