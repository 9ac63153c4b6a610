"""From what the node's reader has of a step to its samples, and to what `decode` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from horovod_opt.io.batch import BatchInfo, without_holes
from horovod_opt.io.data import Data
from horovod_opt.io.errors import DataError
from horovod_opt.io.node_reader import records
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.records import StepBytes, StepRecords, all_good
from horovod_opt.io.plain_samples import PlainSamples
from horovod_opt.io.reading import Steps, StepSamples
from horovod_opt.io.sample import Sample
from horovod_opt.io.sample_batch import SampleBatch

Decode = Callable[[Sample], Any]
DecodeBatch = Callable[[SampleBatch], Any]


class Found(NamedTuple):
    """The good samples of a step, what the batch says of itself, and the numbers of the others."""

    samples: Union[SampleBatch, PlainSamples]
    info: BatchInfo
    holes: list[int]


def found(data: Data, member: Member, steps: Steps, plain: bool = False) -> Iterator[Found]:
    """Waits for the bytes of each step. `plain`: nothing will be decoded.

    Raises DataError for a damaged record, unless the data was opened with bad="skip".
    """
    if plain and len(data.index.parts) == 1:
        yield from _found_plain(data, member, steps)
        return
    begin = 0
    taken_steps = member.take_steps(steps.located)
    for taken, end, info in zip(taken_steps, steps.ends.tolist(), steps.infos):
        samples = SampleBatch(data.index, data.order.seed, info.epoch, taken.samples,
                              steps.positions[begin:end], taken.buffer, taken.begin, taken.size,
                              taken.are_equal)
        one = Found(samples, info, [])
        yield one if taken.is_good else _without_bad(data, one, taken)
        begin = end


def _found_plain(data: Data, member: Member, steps: Steps) -> Iterator[Found]:
    taken_steps = member.take_bytes(steps.located)
    for taken, info in zip(taken_steps, steps.infos):
        one = Found(PlainSamples(data.index, taken.samples, taken.data), info, [])
        yield one if taken.is_good else _without_bad(data, one, taken)


def _without_bad(data: Data, one: Found, taken: Union[StepRecords, StepBytes]) -> Found:
    good, info = judged(data, taken.samples, taken.status, one.info)
    return Found(one.samples.chosen(np.flatnonzero(good)), info, taken.samples[~good].tolist())


def judged(data: Data, samples: np.ndarray, status: np.ndarray, info: BatchInfo
           ) -> tuple[np.ndarray, BatchInfo]:
    """Which of a step's samples (int64[k], `status` int32[k, P]) are good: bool[k], and what the
    batch says of itself without the others.

    Raises DataError for a damaged record, unless the data was opened with bad="skip".
    """
    if data.bad == "raise":
        i, part = np.argwhere(status != records.GOOD)[0]
        raise DataError(records.describe(data.index, int(samples[i]), int(part),
                                          int(status[i, part])))
    good = all_good(status)
    return good, without_holes(info, int(good.sum()), data.ranks.size)


def found_in(data: Data, member: Member, step: StepSamples, plain: bool = False) -> Found:
    """The same of one step."""
    one, = found(data, member, step.alone(), plain)
    return one


def items_of(data: Data, samples: SampleBatch, decode: Optional[Decode],
             pool: Optional[Executor] = None) -> list[Any]:
    """Each sample as `decode` makes it, or plain; in `pool`, if there is one. Raises DataError for
    what `decode` raises, with the sample named."""
    if decode is None:
        return samples.plain()

    def one(sample: Sample) -> Any:
        try:
            return decode(sample)
        except Exception as error:
            # Python 3.9 has no add_note().
            number = sample.number
            raise DataError(f"decoding sample {number} {sample.key!r} of "
                            f"{data.index.path(int(data.index.file[number, 0]))}: "
                            f"{type(error).__name__}: {error}; remedy: correct decode=, or the "
                            "sample") from error

    return list((pool.map if pool else map)(one, samples.samples()))
