"""The feeder's side of a queue of steps: a thin wrapper of native_table.py."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from horovod_opt.io import native, native_table
from horovod_opt.io.errors import InputError, ReaderEnded
from horovod_opt.io.node_reader import lifetime
from horovod_opt.io.node_reader.record_request import LocatedRecords, address_of


class BatchInfos(NamedTuple):
    """What batches say of themselves: their whole numbers int64[steps, 6], weights
    float32[steps]."""

    infos: np.ndarray
    weights: np.ndarray


class Question(NamedTuple):
    """What the taker needs for `step`, which counts from the first one added: why it has got `code`
    and `text`, or, with Code.OK, what to do about records whose `status` (int32[n]) is bad."""

    number: int
    step: int
    code: int
    text: str
    status: np.ndarray


class StepQueue:
    """Fed by one thread. It may outlive the node cache, whose taker then asks about Code.CLOSED."""

    def __init__(self, handle: int):
        self._lib = native.library()
        self._handle: int | None = handle
        self.number = self._lib.hio_queue_number(handle)  # for hio_queue_claim()
        lifetime.let_go_in_children(self)

    def wait(self) -> int:
        """Sleeps until there is one of QueueEvent."""
        return self._lib.hio_queue_wait(self._here())

    def add(self, first: int, ends: np.ndarray, records: LocatedRecords,
            labels: np.ndarray | None, infos: BatchInfos) -> None:
        """Steps from `first` in the node cache on: step first + i has the samples before ends[i]
        (int64[steps]). `labels`: of samples, or None. Everything is copied."""
        arrays = (None if labels is None else np.ascontiguousarray(labels, np.int64),
                  np.ascontiguousarray(infos.infos, np.int64),
                  np.ascontiguousarray(infos.weights, np.float32))
        ends = np.ascontiguousarray(ends, np.int64)
        if self._lib.hio_queue_add(self._here(), first, len(ends), records.size.shape[1],
                                   ends.ctypes.data, records.as_native(),
                                   *map(address_of, arrays)):
            raise InputError(native.error())

    def finish(self, has_failed: bool = False) -> None:
        """Nothing comes after that; the taker of a feeder that has failed asks why."""
        self._lib.hio_queue_finish(self._here(), int(has_failed))

    def question(self) -> Question:
        """After QueueEvent.QUESTION."""
        question = native_table.Question()
        self._lib.hio_queue_question(self._here(), question)
        statuses = ctypes.cast(question.statuses, ctypes.POINTER(ctypes.c_int32))
        status = (np.ctypeslib.as_array(statuses, (question.records,)).copy() if question.records
                  else np.zeros(0, np.int32))
        return Question(question.number, question.step, question.code,
                        question.text.decode(errors="replace"), status)

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
