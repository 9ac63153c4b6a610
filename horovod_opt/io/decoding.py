"""From the bytes of a step to what the user's decode function makes of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple, Optional

import numpy as np

from horovod_opt.io.data import Data
from horovod_opt.io.errors import DataError
from horovod_opt.io.reader import statuses
from horovod_opt.io.reader.member import Member
from horovod_opt.io.reading import StepSamples
from horovod_opt.io.sample import Sample, sample_of, seed_of

Decode = Callable[[Sample], Any]


class Decoded(NamedTuple):
    """The good samples of a step, in order, and the numbers of the others."""

    items: list[Any]
    holes: list[int]


def plain(sample: Sample) -> Any:
    """What a sample is without a decode function: its bytes; with its label in a folder of classes;
    by part, and with "__key__", where it has several."""
    if len(sample.parts) > 1:
        return {"__key__": sample.key, **sample.parts}
    return sample.data if sample.label is None else (sample.data, sample.label)


def decoded(data: Data, member: Member, step: StepSamples, decode: Optional[Decode],
            pool: Optional[Executor] = None) -> Decoded:
    """Waits for the step's bytes, and decodes them, in `pool` if there is one.

    Raises DataError for a damaged record, unless the data was opened with bad="skip"; and what
    `decode` raises, with the sample named.
    """
    taken = member.take_at(step.ring_step, step.samples, step.loads, step.places)
    member.done(step.ring_step)
    good = taken.good
    if not good.all() and data.bad == "raise":
        i, part = np.argwhere(taken.status != statuses.GOOD)[0]
        raise DataError(statuses.describe(data.index, int(step.samples[i]), int(part),
                                          int(taken.status[i, part])))
    index, act = data.index, decode or plain

    def one(i: int) -> Any:
        number, position = int(step.samples[i]), int(step.positions[i])
        sample = sample_of(index, number, [*map(bytes, taken.parts(i))], step.info.epoch, position,
                           seed_of(data.order.seed, step.info.epoch, position))
        try:
            return act(sample)
        except Exception as error:
            # Python 3.9 has no add_note().
            raise DataError(f"decoding sample {number} {sample.key!r} of "
                            f"{index.path(int(index.file[number, 0]))}: {type(error).__name__}: "
                            f"{error}; remedy: correct decode=, or the sample") from error

    wanted = np.flatnonzero(good).tolist()
    items = list(pool.map(one, wanted) if pool else map(one, wanted))
    return Decoded(items, step.samples[~good].tolist())
