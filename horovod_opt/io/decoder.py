"""From what the node's reader has of a step to its samples, and to what `decode` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from horovod_opt.io.batch import BatchInfo, without_holes
from horovod_opt.io.data import Data
from horovod_opt.io.errors import DataError, Skip
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
    """The good samples of a step, what the batch says of itself, and who has taken them."""

    samples: Union[SampleBatch, PlainSamples]
    info: BatchInfo
    member: Member


class Undecoded(NamedTuple):
    """In the place of what decode would have made of sample `number`."""

    number: int
    reason: str


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
        step = GoodSamples(samples, info, member)
        yield _expand(step if copies.is_good else _drop_damaged(data, member, step, copies))
        begin = end


def _read_plain_steps(data: Data, member: Member, steps: Steps) -> Iterator[GoodSamples]:
    taken_steps = member.take_bytes(steps.located)
    for copies, info in zip(taken_steps, steps.infos):
        samples = PlainSamples(data.index, copies.samples, copies.data)
        step = GoodSamples(samples, info, member)
        yield _expand(step if copies.is_good else _drop_damaged(data, member, step, copies))


def _expand(step: GoodSamples) -> GoodSamples:
    return step._replace(samples=step.samples.expanded())


def _drop_damaged(data: Data, member: Member, step: GoodSamples,
                  copies: Union[StepRecords, StepBytes]) -> GoodSamples:
    good, info = select_good(data, member, copies.samples, copies.status, step.info)
    return GoodSamples(step.samples.chosen(np.flatnonzero(good)), info, member)


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
    _leave_out(data, member, info, samples[~good], "damaged", describe(bad[0]), describe(bad[-1]))
    return good, without_holes(info, int(good.sum()), data.shares.count)


def _leave_out(data: Data, member: Member, info: BatchInfo, holes: np.ndarray, what: str,
               first: str, last: str) -> None:
    """Notes these samples for all ranks of the node; `what` and `first` and `last` describe them.
    Raises DataError, on all of these ranks, for more than may be left out."""
    count = member.leave_out(info.epoch, holes)
    if member.holes.is_first(info.epoch, int(holes[0])):
        say(f"left out as {what}: {first}; others are counted, not said: data.holes")
    if count > data.most_holes:
        text = (f"{count} samples of epoch {info.epoch} are {what}, on this node, of which "
                f"bad_limit={data.bad_limit} lets {data.most_holes} be left out; the last: "
                f"{last}, or a larger bad_limit= of open")
        member.fail(text)
        raise DataError(text)


def read_step(data: Data, member: Member, step: StepSamples, plain: bool = False) -> GoodSamples:
    """The same of one step."""
    step_samples, = read_steps(data, member, step.alone(), plain)
    return step_samples


def decode_samples(data: Data, samples: SampleBatch, decode: Optional[Decode]) -> list[Any]:
    """Each sample as `decode` makes it, or plain. Raises DataError for what `decode` raises, with
    the sample named, also for Skip."""
    items = list(start_decoding(data, samples, decode))
    for item in items:
        if isinstance(item, Undecoded):
            raise DataError(f"{_name(data, item.number)} is left out: {item.reason}; remedy: "
                            "another sample")
    return items


def decode_step(data: Data, step: GoodSamples, decode: Optional[Decode]) -> list[Any]:
    """The same of a step, without those that are left out."""
    return drop_undecoded(data, step, list(start_decoding(data, step.samples, decode)))[0]


def start_decoding(data: Data, samples: SampleBatch, decode: Optional[Decode],
                   pool: Optional[Executor] = None) -> Iterable[Any]:
    """What `decode` makes of each, `pool` before it is asked for; without, as it is. Undecoded
    where it is to be left out."""
    if decode is None:
        return samples.plain()

    def decode_sample(sample: Sample) -> Any:
        try:
            return decode(sample)
        except Exception as error:
            if data.bad != "raise" and (isinstance(error, Skip)
                                        or data.bad == "skip-all" and _is_of_sample(error)):
                return Undecoded(sample.number, f"{type(error).__name__}: {error}")
            # Python 3.9 has no add_note().
            remedy = ("bad='skip' of open, by which such samples are left out"
                      if isinstance(error, Skip) else "correct decode=, or the sample")
            raise DataError(f"decoding {_name(data, sample.number)}: {type(error).__name__}: "
                            f"{error}; remedy: {remedy}") from error

    return (pool.map if pool else map)(decode_sample, samples.samples())


def drop_undecoded(data: Data, step: GoodSamples, items: Sequence[Any]
                   ) -> tuple[list[Any], BatchInfo]:
    """The others, and what the batch says of itself then. Raises DataError, on all ranks of the
    node, for more than may be left out."""
    bad = [item for item in items if isinstance(item, Undecoded)]
    if not bad:
        return items, step.info
    first, last = (f"{_name(data, item.number)}: {item.reason}; remedy: correct the sample, or "
                   "decode=" for item in (bad[0], bad[-1]))
    _leave_out(data, step.member, step.info, np.array([item.number for item in bad]),
               "not to be decoded", first, last)
    good = [item for item in items if not isinstance(item, Undecoded)]
    return good, without_holes(step.info, len(good), data.shares.count)


def _is_of_sample(error: Exception) -> bool:
    """Not a lack of memory, nor what the system says; errors of PIL are OSErrors without a
    number."""
    return not isinstance(error, MemoryError) and getattr(error, "errno", None) is None


def _name(data: Data, number: int) -> str:
    index = data.index
    return (f"sample {number} {index.key(number)!r} of "
            f"{index.path(int(index.file[number, 0]))}")
