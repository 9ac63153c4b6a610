"""The feeder's side of a queue of steps: a thin wrapper of csrc/io/api/c_api.h."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from horovod_opt.io import native
from horovod_opt.io.errors import InputError
from horovod_opt.io.node_reader import forked
from horovod_opt.io.node_reader.errors import ReaderEnded


class Said(NamedTuple):
    """What batches say of themselves: their whole numbers int64[steps, 6], weights
    float32[steps]."""

    infos: np.ndarray
    weights: np.ndarray


class Question(NamedTuple):
    """What the taker needs for `step`, which counts from the first one added: why it has got `code`
    and `text`, or, with native.OK, what to do about records whose `status` (int32[n]) is bad."""

    number: int
    step: int
    code: int
    text: str
    status: np.ndarray


class StepQueue:
    """Fed by one thread. It may outlive the ring, whose taker then asks about native.CLOSED."""

    def __init__(self, handle: int):
        self._lib = native.library()
        self._handle: int | None = handle
        self.number = self._lib.hio_queue_number(handle)  # for hio_queue_claim()
        forked.watch(self)

    def wait(self) -> int:
        """Sleeps until there is native.ROOM, or it was native.ASKED or native.STOPPED."""
        return self._lib.hio_queue_wait(self._here())

    def add(self, first: int, ends: np.ndarray, parts: int,
            records: tuple[np.ndarray | None, ...], labels: np.ndarray | None, said: Said) -> None:
        """Steps from `first` in the ring on: step first + i has the samples before ends[i]
        (int64[steps]), of `parts` records each. `records`: load, place, size, crc or None, file and
        offset of each. `labels`: of samples, or None. Everything is copied."""
        arrays = [np.ascontiguousarray(ends, np.int64), *records,
                  None if labels is None else np.ascontiguousarray(labels, np.int64),
                  np.ascontiguousarray(said.infos, np.int64),
                  np.ascontiguousarray(said.weights, np.float32)]
        if self._lib.hio_queue_add(self._here(), first, len(ends), parts,
                                   *(None if each is None else each.ctypes.data
                                     for each in arrays)):
            raise InputError(self._lib.hio_error().decode(errors="replace"))

    def finish(self, has_failed: bool = False) -> None:
        """Nothing comes after that; the taker of a feeder that has failed asks why."""
        self._lib.hio_queue_finish(self._here(), int(has_failed))

    def question(self) -> Question:
        """After native.ASKED."""
        asked = native.Question()
        self._lib.hio_queue_question(self._here(), ctypes.addressof(asked))
        status = (np.ctypeslib.as_array(asked.statuses, (asked.records,)).copy() if asked.records
                  else np.zeros(0, np.int32))
        return Question(asked.number, asked.step, asked.code, asked.text.decode(errors="replace"),
                        status)

    def go_on(self, number: int, is_good: np.ndarray, weight: float) -> None:
        """The answer that the batch has its good samples (bool[k]) only."""
        good = np.ascontiguousarray(is_good, np.uint8)
        self._lib.hio_queue_go_on(self._here(), number, len(good), good.ctypes.data,
                                  int(good.sum()), weight)

    def refuse(self, number: int, error: str, is_input: bool) -> None:
        """The answer that this is an error; `is_input`: of the caller's."""
        self._lib.hio_queue_refuse(self._here(), number, error.encode(), int(is_input))

    def stop(self) -> None:
        """The pass is left: both sides return."""
        self._lib.hio_queue_stop(self._here())

    @property
    def handed_out(self) -> int:
        """Steps."""
        return self._lib.hio_queue_handed_out(self._here())

    @property
    def is_over(self) -> bool:
        """Whether the taker was told that nothing follows."""
        return bool(self._lib.hio_queue_is_over(self._here()))

    @property
    def waited(self) -> float:
        """Seconds, for these steps, by whoever wanted them."""
        return self._lib.hio_queue_waited(self._here()) / 1e9

    def let_go(self) -> None:
        """In a forked process, which has none of the threads."""
        self._handle = None

    def _here(self) -> int:
        if self._handle is None:
            raise ReaderEnded("the queue was made before this process was forked; remedy: make the "
                              "data set here")
        return self._handle

    def __del__(self) -> None:
        if self._handle is not None:
            self._lib.hio_queue_free(self._handle)
