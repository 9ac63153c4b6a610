"""From what the node's reader has of a step to its samples, and to what `decode` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from horovod_opt.io.batch import BatchInfo, without_holes
from horovod_opt.io.data import Data
from horovod_opt.io.errors import DataError
from horovod_opt.io.node_reader import records
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.records import StepBytes, StepRecords, all_good
from horovod_opt.io.progress import say
from horovod_opt.io.sample import Sample
from horovod_opt.io.sample_batch import PlainSamples, SampleBatch
from horovod_opt.io.step_source import Steps, StepSamples

Decode = Callable[[Sample], Any]
DecodeBatch = Callable[[SampleBatch], Any]


class GoodSamples(NamedTuple):
    """The good samples of a step, and what the batch says of itself."""

    samples: Union[SampleBatch, PlainSamples]
    info: BatchInfo


def read_steps(data: Data, member: Member, steps: Steps, plain: bool = False
               ) -> Iterator[GoodSamples]:
    """Waits for the bytes of each step. `plain`: nothing will be decoded.

    Raises DataError for a damaged record, unless the data was opened with bad="skip".
    """
    if plain and len(data.index.parts) == 1:
        yield from _read_plain_steps(data, member, steps)
        return
    begin = 0
    taken_steps = member.take_steps(steps.located)
    for copies, end, info in zip(taken_steps, steps.ends.tolist(), steps.infos):
        samples = SampleBatch(data.index, data.order.seed, info.epoch, copies.samples,
                              steps.positions[begin:end], copies.buffer, copies.begin,
                              copies.size, copies.are_equal)
        step = GoodSamples(samples, info)
        yield step if copies.is_good else _drop_damaged(data, member, step, copies)
        begin = end


def _read_plain_steps(data: Data, member: Member, steps: Steps) -> Iterator[GoodSamples]:
    taken_steps = member.take_bytes(steps.located)
    for copies, info in zip(taken_steps, steps.infos):
        samples = PlainSamples(data.index, copies.samples, copies.data)
        step = GoodSamples(samples, info)
        yield step if copies.is_good else _drop_damaged(data, member, step, copies)


def _drop_damaged(data: Data, member: Member, step: GoodSamples,
                  copies: Union[StepRecords, StepBytes]) -> GoodSamples:
    good, info = select_good(data, member, copies.samples, copies.status, step.info)
    return GoodSamples(step.samples.chosen(np.flatnonzero(good)), info)


def select_good(data: Data, member: Member, samples: np.ndarray, status: np.ndarray,
                info: BatchInfo) -> tuple[np.ndarray, BatchInfo]:
    """Which of a step's samples (int64[k], `status` int32[k, P]) are good: bool[k], and what the
    batch says of itself without the others, which are noted for all ranks of the node.

    Raises DataError for a damaged record, unless the data was opened with bad="skip". On all ranks
    of the node it ends the reading: for one that cannot be read, whatever is in it, and for more
    damaged ones than may be left out.
    """
    def describe(at: np.ndarray) -> str:
        i, part = at.tolist()
        return records.describe(data.index, int(samples[i]), part, int(status[i, part]))

    bad = np.argwhere(status != records.GOOD)
    unreadable = np.argwhere(~np.isin(status, (records.GOOD, *records.DAMAGES)))
    if len(unreadable):
        text = describe(unreadable[0])
        member.fail(text)
        raise DataError(text)
    if data.bad == "raise":
        raise DataError(describe(bad[0]))
    good = all_good(status)
    holes = samples[~good]
    count = member.leave_out(info.epoch, holes)
    if member.holes.is_first(info.epoch, int(holes[0])):
        say(f"left out as damaged: {describe(bad[0])}; others are counted, not said: data.holes")
    if count > data.most_holes:
        text = (f"{count} samples of epoch {info.epoch} are damaged, on this node, of which "
                f"bad_limit={data.bad_limit} lets {data.most_holes} be left out; the last: "
                f"{describe(bad[-1])}, or a larger bad_limit= of open")
        member.fail(text)
        raise DataError(text)
    return good, without_holes(info, int(good.sum()), data.ranks.size)


def read_step(data: Data, member: Member, step: StepSamples, plain: bool = False) -> GoodSamples:
    """The same of one step."""
    step_samples, = read_steps(data, member, step.alone(), plain)
    return step_samples


def decode_samples(data: Data, samples: SampleBatch, decode: Optional[Decode],
                   pool: Optional[Executor] = None) -> list[Any]:
    """Each sample as `decode` makes it, or plain; in `pool`, if there is one. Raises DataError for
    what `decode` raises, with the sample named."""
    return list(start_decoding(data, samples, decode, pool))


def start_decoding(data: Data, samples: SampleBatch, decode: Optional[Decode],
                   pool: Optional[Executor] = None) -> Iterable[Any]:
    """The same, with `pool` before the samples are asked for; without, as they are."""
    if decode is None:
        return samples.plain()

    def decode_sample(sample: Sample) -> Any:
        try:
            return decode(sample)
        except Exception as error:
            # Python 3.9 has no add_note().
            number = sample.number
            raise DataError(f"decoding sample {number} {sample.key!r} of "
                            f"{data.index.path(int(data.index.file[number, 0]))}: "
                            f"{type(error).__name__}: {error}; remedy: correct decode=, or the "
                            "sample") from error

    return (pool.map if pool else map)(decode_sample, samples.samples())
