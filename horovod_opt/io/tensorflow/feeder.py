"""A thread that says what is in the steps of a pass, and answers what the kernel asks."""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Optional

import numpy as np

from horovod_opt.io.data import Data
from horovod_opt.io.decoder import select_good
from horovod_opt.io.job.patience import Wait
from horovod_opt.io.native_table import Code, QueueEvent
from horovod_opt.io.node_reader.step_queue import Question
from horovod_opt.io.node_reader.steps import Pass, Steps
from horovod_opt.io.step_source import StepSource
from horovod_opt.io.tensorflow.elements import Elements
from horovod_opt.io.tensorflow.sample_names import SampleNames


class Feeder:
    """Of one pass, which ends when the kernel leaves it. `number`: of its queue."""

    def __init__(self, data: Data, source: StepSource, begun: Pass,
                 names: Optional[SampleNames] = None):
        if names is not None:
            names.forget()
        self._names = names
        self._data, self._source, self._member = data, source, source.member
        self._queue = self._member.queue()
        self.number = self._queue.number
        self._steps: Iterator[Steps] = source.step_groups(begun)
        self._pending: deque[Steps] = deque()  # those with steps that were not handed out
        self._pending_start = 0  # the number of their first one, in the pass
        self._error: Optional[BaseException] = None
        self._wait = (-1, Wait())  # of the step that the taker waits for
        self._pass = begun
        source.stats.wait_is(lambda: self._queue.waited)
        self._thread = threading.Thread(target=self._run, name="hio-steps", daemon=True)
        self._thread.start()

    def handed_out_of(self) -> Callable[[], int]:
        """Says how many steps TensorFlow has got, when this one is not there any more, too."""
        queue = self._queue
        return lambda: queue.handed_out

    def close(self) -> None:
        """Nobody takes the steps any more, and this one touches nothing any more."""
        self._queue.stop()
        self._thread.join()

    def _run(self) -> None:
        while (event := self._queue.wait()) != QueueEvent.STOP:
            if event == QueueEvent.QUESTION:
                self._answer(self._queue.question())
            else:
                self._feed()
        self._steps.close()
        self._source.stats.wait_is_over()
        self._source.stats.publish()
        if self._queue.handed_out == self._pass.steps:
            self._source.end_pass()

    def _feed(self) -> None:
        try:
            steps = next(self._steps, None)
            if steps is None:
                self._queue.finish()
                return
            self._forget()
            self._pending.append(steps)
            if self._names is not None:
                for step in steps.split():
                    self._names.put(step.info.epoch, step.info.step, step.samples)
            self._member.enqueue(self._queue, steps.located, Elements.batch_infos(steps.infos))
        except BaseException as error:  # it becomes the taker's
            self._error = error
            self._queue.finish(has_failed=True)

    def _forget(self) -> None:
        handed_out = self._queue.handed_out
        while self._pending and self._pending_start + len(self._pending[0].infos) <= handed_out:
            self._pending_start += len(self._pending.popleft().infos)

    def _answer(self, question: Question) -> None:
        try:
            with self._data.interruptible():
                good, weight = self._good(question)
        except BaseException as error:
            self._queue.refuse(
                question.number, f"{type(error).__name__}: {error}\n{traceback.format_exc()}",
                isinstance(error, (TypeError, ValueError)))
        else:
            self._queue.go_on(question.number, good, weight)

    def _good(self, question: Question) -> tuple[np.ndarray, float]:
        """Which samples of the step are good: bool[k], and the batch's weight without the others.
        Raises what a taker in Python would."""
        if question.code == Code.FAILED and not question.text:  # that is the end of _feed()
            raise self._error
        steps, step = self._step(question.step)
        if question.code == Code.TIMEOUT:
            if self._wait[0] != question.step:
                self._wait = question.step, Wait()
            self._member.look(self._wait[1], steps.cache_step + step)
            return np.zeros(0, bool), 0
        if question.code != Code.OK:
            self._member.check_taken(question.code, steps.cache_step + step, question.text)
        samples = steps.samples[steps.ends[step - 1] if step else 0:steps.ends[step]]
        good, info = select_good(self._data, self._member, samples,
                                 question.status.reshape(len(samples), -1), steps.infos[step])
        if self._names is not None:
            self._names.put(info.epoch, info.step, samples[good])
        return good, info.weight

    def _step(self, step: int) -> tuple[Steps, int]:
        """A step of the pass that was not handed out: those that it is in, and its place there."""
        pending = iter(self._pending)
        steps, step = next(pending), step - self._pending_start
        while step >= len(steps.infos):
            step -= len(steps.infos)
            steps = next(pending)
        return steps, step
