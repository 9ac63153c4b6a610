"""A queue of steps between Python and a taker that calls C, as TensorFlow's kernel does."""

from __future__ import annotations

import ctypes
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from events import MINUTE
from node_data import Data, loads_of, one_file

from horovod_opt.io import native, native_table
from horovod_opt.io.errors import InputError, ReaderEnded
from horovod_opt.io.native_table import Code, QueueEvent
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.reader_process import Reader
from horovod_opt.io.node_reader.record_request import LocatedRecords, LocatedSteps
from horovod_opt.io.node_reader.step_queue import BatchInfos, StepQueue

INT64 = ctypes.c_int64
CHUNK_SAMPLES = 4
LONG_MS = int(MINUTE * 1000)


def numbers_at(address: int, count: int, kind: type = INT64) -> list[int]:
    """Of a C array."""
    return ctypes.cast(address, ctypes.POINTER(kind))[:count]


class Taker:
    """Of the queue of this number."""

    def __init__(self, number: int):
        self._lib = native.library()
        self._queue = self._lib.hio_queue_claim(number)
        assert self._queue
        self.step = native_table.Step()

    def look(self, milliseconds: int = LONG_MS) -> int:
        return self._lib.hio_queue_look(self._queue, self.step, milliseconds)

    def take(self) -> tuple[int, int, list[bytes]]:
        """Code, how many records are bad, and all of them."""
        count = self.step.samples * self.step.parts
        sizes = numbers_at(self.step.sizes, count)
        buffers = [ctypes.create_string_buffer(size + 1) for size in sizes]
        places = (INT64 * max(count, 1))(*map(ctypes.addressof, buffers))
        begin, bad = INT64(0), INT64(0)
        code = self._lib.hio_queue_take(self._queue, ctypes.addressof(places),
                                        ctypes.addressof(begin), ctypes.addressof(bad), LONG_MS)
        return code, bad.value, [buffer.raw[:size] for buffer, size in zip(buffers, sizes)]

    def ask(self, code: int, text: str = "") -> native_table.Answer:
        answer = native_table.Answer()
        assert self._lib.hio_queue_ask(self._queue, code, text.encode(), answer,
                                       LONG_MS) == Code.OK
        return answer

    def hand_out(self, nanoseconds: int = 0) -> None:
        self._lib.hio_queue_hand_out(self._queue, nanoseconds)

    def close(self) -> None:
        self._lib.hio_queue_free(self._queue)


class QueuedNode:
    """A node of one rank, whose steps have these samples, and a queue that has them all."""

    def __init__(self, data: Data, steps: list[np.ndarray]):
        data.label = np.arange(len(data.size)) * 10
        self.reader = Reader(data, CHUNK_SAMPLES, 1 << 24, 1)
        self.member = Member(data, CHUNK_SAMPLES, self.reader.address, 0)
        loads = loads_of(steps, CHUNK_SAMPLES)
        self.reader.feed(loads)
        self.member.feed(loads)
        self.queue = self.member.queue()
        self.add(steps)

    def add(self, steps: list[np.ndarray]) -> None:
        samples = np.concatenate(steps)
        numbers = np.repeat(np.arange(len(steps)), [len(step) for step in steps])
        infos = np.arange(len(steps) * 6).reshape(-1, 6)
        ends = np.cumsum([len(step) for step in steps])
        located = LocatedSteps(0, ends, samples, *self.member.locate(numbers, samples))
        weights = np.arange(len(steps), dtype=np.float32) / 2
        self.member.enqueue(self.queue, located, BatchInfos(infos, weights))

    def __enter__(self) -> QueuedNode:
        return self

    def __exit__(self, *_: object) -> None:
        self.queue.stop()
        self.member.close()
        self.reader.stop()


def steps_of(count: int) -> list[np.ndarray]:
    return [np.array([2 * i + 1, 2 * i]) for i in range(count // 2)]


def test_a_taker_gets_the_steps(tmp_path):
    data = one_file(tmp_path, np.random.default_rng(1).integers(0, 5000, 20)).with_checksums()
    steps = steps_of(20)
    with QueuedNode(data, steps) as node:
        node.queue.finish()
        taker = Taker(node.queue.number)
        for number, samples in enumerate(steps):
            assert taker.look() == Code.OK
            assert numbers_at(taker.step.infos, 6) == list(range(6 * number, 6 * number + 6))
            assert numbers_at(taker.step.labels, 2) == (samples * 10).tolist()
            assert taker.step.weight == number / 2
            assert taker.take() == (Code.OK, 0, [data.records[s][0] for s in samples])
            assert node.queue.handed_out == number
            taker.hand_out()
        assert taker.look() == Code.OVER
        assert node.queue.handed_out == len(steps)
        assert node.member.stats().records == 20
        taker.close()


def test_a_number_is_good_for_one_taker(tmp_path):
    data = one_file(tmp_path, [10] * 4)
    with QueuedNode(data, steps_of(4)) as node:
        number = node.queue.number
        Taker(number).close()
        assert not native.library().hio_queue_claim(number)


def test_a_bad_record_is_asked_about(tmp_path):
    data = one_file(tmp_path, [100] * 4, gap=0).with_checksums()
    data.crc[3] ^= 1
    with QueuedNode(data, steps_of(4)) as node:
        answers: list[int] = []

        def feed() -> None:
            node.queue.finish()
            while node.queue.wait() != QueueEvent.STOP:
                question = node.queue.question()
                answers.append(question.step)
                assert question.code == Code.OK
                node.queue.go_on(question.number, question.status == 0, 0.25)

        thread = threading.Thread(target=feed)
        thread.start()
        taker = Taker(node.queue.number)
        for bad in 0, 1:
            assert taker.look() == Code.OK
            code, count, _ = taker.take()
            assert (code, count) == (Code.OK, bad)
            if bad:
                answer = taker.ask(Code.OK)
                assert (answer.error, answer.size, answer.weight) == (None, 1, 0.25)
                assert numbers_at(answer.is_good, 2, ctypes.c_uint8) == [0, 1]
            taker.hand_out()
        taker.close()
        node.queue.stop()
        thread.join(MINUTE)
        assert not thread.is_alive() and answers == [1]


def test_the_node_cache_goes_while_a_taker_waits_for_it(tmp_path):
    """Nothing was fed for its step: it would wait for ever."""
    data = one_file(tmp_path, [100] * 8)
    with QueuedNode(data, steps_of(4)) as node:
        taker = Taker(node.queue.number)
        for _ in range(2):
            assert taker.look() == Code.OK and taker.take()[0] == Code.OK
            taker.hand_out()
        far = LocatedRecords(data, np.array([0]), np.array([50]), np.zeros((1, 1), np.int64), 1)
        node.queue.add(2, np.array([1]), far, np.array([0]),
                       BatchInfos(np.zeros((1, 6)), np.ones(1)))
        assert taker.look() == Code.OK
        codes: list[int] = []
        thread = threading.Thread(target=lambda: codes.append(taker.take()[0]))
        thread.start()
        time.sleep(0.2)
        assert not codes
        node.member.close()
        thread.join(MINUTE)
        assert codes == [Code.CLOSED]
        assert taker.take()[0] == Code.CLOSED  # there is no node cache any more
        with pytest.raises(ReaderEnded, match="has closed its reader"):
            node.member.check_taken(Code.CLOSED, 2, "")
        with pytest.raises(ReaderEnded, match="has closed its reader"):
            node.member.queue()
        taker.close()


def test_a_failure_of_the_taker_has_its_own_text(tmp_path):
    data = one_file(tmp_path, [100] * 4)
    with QueuedNode(data, steps_of(4)) as node:
        index = SimpleNamespace(size=np.array([[1 << 40]]), crc=None, file=data.file,
                                offset=data.offset)
        large = LocatedRecords(index, np.array([0]), np.array([0]), np.zeros((1, 1), np.int64), 1)
        node.queue.add(2, np.array([1]), large, np.array([0]),
                       BatchInfos(np.zeros((1, 6)), np.ones(1)))
        taker = Taker(node.queue.number)
        for _ in range(2):
            assert taker.look() == Code.OK and taker.take()[0] == Code.OK
            taker.hand_out()
        assert taker.look() == Code.OK
        taker.step.samples = 0  # of which nothing is to be copied here
        code = taker.take()[0]
        text = native.error()
        assert code == Code.FAILED and f"has no {1 << 40} bytes" in text
        with pytest.raises(Exception, match=f"step 2 of rank 0: load 0 has no {1 << 40} bytes"):
            node.member.check_taken(code, 2, text)
        taker.close()


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    data = one_file(tmp_path, [100] * 4)
    with QueuedNode(data, steps_of(4)) as node, pytest.raises(InputError, match="do not fit"):
        nothing = np.zeros(0, np.int64)
        records = LocatedRecords(data, nothing, nothing, np.zeros((0, 1), np.int64), 1)
        node.queue.add(2, nothing, records, None, BatchInfos(np.zeros((0, 6)), np.zeros(0)))


def test_how_long_steps_were_wanted(tmp_path):
    data = one_file(tmp_path, [100] * 4)
    with QueuedNode(data, steps_of(4)) as node:
        taker = Taker(node.queue.number)
        for nanoseconds in (1_500_000_000, 250_000_000):
            assert taker.look() == Code.OK and taker.take()[0] == Code.OK
            taker.hand_out(nanoseconds)
        assert node.queue.waited == 1.75
        taker.close()


def test_a_queue_outlives_its_reader(tmp_path):
    data = one_file(tmp_path, [100] * 4)
    with QueuedNode(data, steps_of(4)) as node:
        queue: StepQueue = node.queue
        taker = Taker(queue.number)
        assert taker.look() == Code.OK
        taker.take()
        taker.hand_out()
    assert queue.handed_out == 1
    assert taker.look() == Code.CLOSED  # stopped
    taker.close()
