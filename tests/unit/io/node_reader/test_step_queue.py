"""A queue of steps between Python and a taker that calls C, as TensorFlow's kernel does."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest
from node_data import Data, loads_of, one_file

from horovod_opt.io import native
from horovod_opt.io.errors import InputError
from horovod_opt.io.node_reader.errors import ReaderEnded
from horovod_opt.io.node_reader.leader import Leader
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.step_queue import Said, StepQueue

INT64, POINTER = ctypes.c_int64, ctypes.c_void_p
CHUNK_SAMPLES = 4
LONG_MS = 20_000


class Step(ctypes.Structure):
    """HioStep."""

    _fields_ = [("samples", INT64), ("parts", INT64),
                *((name, ctypes.POINTER(INT64)) for name in ("sizes", "labels", "infos")),
                ("weight", ctypes.c_float)]


class Answer(ctypes.Structure):
    """HioAnswer."""

    _fields_ = [("error", ctypes.c_char_p), ("is_input", ctypes.c_int),
                ("is_good", ctypes.POINTER(ctypes.c_uint8)), ("size", INT64),
                ("weight", ctypes.c_float)]


class Taker:
    """Of the queue of this number."""

    def __init__(self, number: int):
        self._lib = native.library()
        self._queue = self._lib.hio_queue_claim(number)
        assert self._queue
        self.step = Step()

    def look(self, milliseconds: int = LONG_MS) -> int:
        return self._lib.hio_queue_look(self._queue, ctypes.addressof(self.step), milliseconds)

    def take(self) -> tuple[int, int, list[bytes]]:
        """Code, how many records are bad, and all of them."""
        count = self.step.samples * self.step.parts
        sizes = self.step.sizes[:count]
        buffers = [ctypes.create_string_buffer(size + 1) for size in sizes]
        places = (INT64 * max(count, 1))(*map(ctypes.addressof, buffers))
        begin, bad = INT64(0), INT64(0)
        code = self._lib.hio_queue_take(self._queue, ctypes.addressof(places),
                                        ctypes.addressof(begin), ctypes.addressof(bad), LONG_MS)
        return code, bad.value, [each.raw[:size] for each, size in zip(buffers, sizes)]

    def ask(self, code: int, text: str = "") -> Answer:
        answer = Answer()
        assert self._lib.hio_queue_ask(self._queue, code, text.encode(), ctypes.addressof(answer),
                                       LONG_MS) == native.OK
        return answer

    def hand_out(self, nanoseconds: int = 0) -> None:
        self._lib.hio_queue_hand_out(self._queue, nanoseconds)

    def close(self) -> None:
        self._lib.hio_queue_free(self._queue)


class Reader:
    """A node of one rank, whose steps have these samples, and a queue that has them all."""

    def __init__(self, data: Data, steps: list[np.ndarray]):
        data.label = np.arange(len(data.size)) * 10
        self.leader = Leader(data, CHUNK_SAMPLES, 1 << 24, 1)
        self.member = Member(data, CHUNK_SAMPLES, self.leader.address, 0)
        loads = loads_of(steps, CHUNK_SAMPLES)
        self.leader.feed(loads)
        self.member.feed(loads)
        self.queue = self.member.queue()
        self.add(steps)

    def add(self, steps: list[np.ndarray]) -> None:
        samples = np.concatenate(steps)
        numbers = np.repeat(np.arange(len(steps)), [len(step) for step in steps])
        infos = np.arange(len(steps) * 6).reshape(-1, 6)
        self.member.enqueue(self.queue, 0, np.cumsum([len(step) for step in steps]), samples,
                            *self.member.locate(numbers, samples),
                            Said(infos, np.arange(len(steps), dtype=np.float32) / 2))

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.queue.stop()
        self.member.close()
        self.leader.stop()


def steps_of(count: int) -> list[np.ndarray]:
    return [np.array([2 * i + 1, 2 * i]) for i in range(count // 2)]


def test_a_taker_gets_the_steps(tmp_path):
    data = one_file(tmp_path, np.random.default_rng(1).integers(0, 5000, 20)).with_checksums()
    steps = steps_of(20)
    with Reader(data, steps) as reader:
        reader.queue.finish()
        taker = Taker(reader.queue.number)
        for number, samples in enumerate(steps):
            assert taker.look() == native.OK
            assert taker.step.infos[:6] == list(range(6 * number, 6 * number + 6))
            assert taker.step.labels[:2] == (samples * 10).tolist()
            assert taker.step.weight == number / 2
            assert taker.take() == (native.OK, 0, [data.records[s][0] for s in samples])
            assert reader.queue.handed_out == number
            taker.hand_out()
        assert taker.look() == native.OVER
        assert reader.queue.handed_out == len(steps)
        assert reader.member.stats().records == 20
        taker.close()


def test_a_number_is_good_for_one_taker(tmp_path):
    data = one_file(tmp_path, [10] * 4)
    with Reader(data, steps_of(4)) as reader:
        number = reader.queue.number
        Taker(number).close()
        assert not native.library().hio_queue_claim(number)


def test_a_bad_record_is_asked_about(tmp_path):
    data = one_file(tmp_path, [100] * 4, gap=0).with_checksums()
    data.crc[3] ^= 1
    with Reader(data, steps_of(4)) as reader:
        answers: list[int] = []

        def feed() -> None:
            reader.queue.finish()
            while reader.queue.wait() != native.STOPPED:
                asked = reader.queue.question()
                answers.append(asked.step)
                assert asked.code == native.OK
                reader.queue.go_on(asked.number, asked.status == 0, 0.25)

        thread = threading.Thread(target=feed)
        thread.start()
        taker = Taker(reader.queue.number)
        for bad in 0, 1:
            assert taker.look() == native.OK
            code, found, _ = taker.take()
            assert (code, found) == (native.OK, bad)
            if bad:
                answer = taker.ask(native.OK)
                assert (answer.error, answer.size, answer.weight) == (None, 1, 0.25)
                assert answer.is_good[:2] == [0, 1]
            taker.hand_out()
        taker.close()
        reader.queue.stop()
        thread.join(20)
        assert not thread.is_alive() and answers == [1]


def test_the_ring_goes_while_a_taker_waits_for_it(tmp_path):
    """Nothing was fed for its step: it would wait for ever."""
    data = one_file(tmp_path, [100] * 8)
    with Reader(data, steps_of(4)) as reader:
        taker = Taker(reader.queue.number)
        for _ in range(2):
            assert taker.look() == native.OK and taker.take()[0] == native.OK
            taker.hand_out()
        far = np.array([0])
        reader.queue.add(2, np.array([1]), 1,
                         (np.array([50]), far, np.array([100]), None, np.zeros(1, np.int32), far),
                         far, Said(np.zeros((1, 6)), np.ones(1)))
        assert taker.look() == native.OK
        codes: list[int] = []
        thread = threading.Thread(target=lambda: codes.append(taker.take()[0]))
        thread.start()
        time.sleep(0.2)
        assert not codes
        reader.member.close()
        thread.join(10)
        assert codes == [native.CLOSED]
        assert taker.take()[0] == native.CLOSED  # there is no ring any more
        with pytest.raises(ReaderEnded, match="has closed its reader"):
            reader.member.check_taken(native.CLOSED, 2, "")
        with pytest.raises(ReaderEnded, match="has closed its reader"):
            reader.member.queue()
        taker.close()


def test_a_failure_of_the_taker_has_its_own_text(tmp_path):
    data = one_file(tmp_path, [100] * 4)
    with Reader(data, steps_of(4)) as reader:
        far = np.array([0])
        reader.queue.add(2, np.array([1]), 1,
                         (far, far, np.array([1 << 40]), None, np.zeros(1, np.int32), far),
                         far, Said(np.zeros((1, 6)), np.ones(1)))
        taker = Taker(reader.queue.number)
        for _ in range(2):
            assert taker.look() == native.OK and taker.take()[0] == native.OK
            taker.hand_out()
        assert taker.look() == native.OK
        taker.step.samples = 0  # of which nothing is to be copied here
        code = taker.take()[0]
        text = native.library().hio_error().decode()
        assert code == native.FAILED and f"has no {1 << 40} bytes" in text
        with pytest.raises(Exception, match=f"step 2 of rank 0: load 0 has no {1 << 40} bytes"):
            reader.member.check_taken(code, 2, text)
        taker.close()


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    data = one_file(tmp_path, [100] * 4)
    with Reader(data, steps_of(4)) as reader, pytest.raises(InputError, match="do not fit"):
        reader.queue.add(2, np.zeros(0, np.int64), 1, (np.zeros(0, np.int64),) * 6, None,
                         Said(np.zeros((0, 6)), np.zeros(0)))


def test_how_long_steps_were_wanted(tmp_path):
    data = one_file(tmp_path, [100] * 4)
    with Reader(data, steps_of(4)) as reader:
        taker = Taker(reader.queue.number)
        for nanoseconds in (1_500_000_000, 250_000_000):
            assert taker.look() == native.OK and taker.take()[0] == native.OK
            taker.hand_out(nanoseconds)
        assert reader.queue.waited == 1.75
        taker.close()


def test_a_queue_outlives_its_reader(tmp_path):
    data = one_file(tmp_path, [100] * 4)
    with Reader(data, steps_of(4)) as reader:
        queue: StepQueue = reader.queue
        taker = Taker(queue.number)
        assert taker.look() == native.OK
        taker.take()
        taker.hand_out()
    assert queue.handed_out == 1
    assert taker.look() == native.CLOSED  # stopped
    taker.close()
