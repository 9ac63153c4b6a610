"""Each sample once an epoch and equally many steps on every rank: random data, ranks, batches,
windows, and kills after which other ranks, with other batches, go on from the last state."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path
from typing import NamedTuple, Optional, Union

import numpy as np
import pytest
from data_sets import tfrecord
from hypothesis import given, settings
from hypothesis import strategies as st
from thread_ranks import in_job, succeeded

from horovod_opt.io import node_reads
from horovod_opt.io.data import Data
from horovod_opt.io.decoder import decode_samples, read_step
from horovod_opt.io.errors import InputError
from horovod_opt.io.node_reader import layout, reader_process
from horovod_opt.io.node_reader.layout import ALONG
from horovod_opt.io.node_reads import LEAST
from horovod_opt.io.order import parcels
from horovod_opt.io.step_source import StepSource

CHOSEN = ("chunk_samples", "shards", "window")
EXAMPLES = "HIO_EXAMPLES"  # how many in a soak run, other ones each time: docs/work/soak.md


class Job(NamedTuple):
    """Ranks, of which `node_ranks` share a node, that are killed after `steps`; None: they end with
    the epoch after the one that they begin with. Their last state is from `lost` steps before. What
    is `left_out` of the options comes from the state that they go on from. `alike`: so many times
    as many ranks have the same samples, in groups. Loops have `loop` batches; None: an epoch.
    `kept`: options of what nodes keep, and to whom samples are dealt."""

    ranks: int
    node_ranks: int
    batch: dict
    steps: Optional[int]
    lost: int = 0
    left_out: tuple[str, ...] = ()
    alike: int = 1
    loop: Optional[int] = None
    kept: dict = {}

    @property
    def groups(self) -> Optional[list[list[int]]]:
        return None if self.alike == 1 else [
            list(range(rank, self.ranks * self.alike, self.ranks)) for rank in range(self.ranks)]

    @property
    def counted(self) -> Optional[int]:
        """Steps until the last state."""
        return None if self.steps is None else max(self.steps - self.lost, 0)


class Program(NamedTuple):
    """Jobs that follow each other, each from the state of the one before. Nodes read `along` bytes
    between what they take, and have `least` in a chunk that is not shuffled. `chosen`: numbers in
    the data of the samples that are wanted, of which `sizes` are; one that is wanted several times,
    as `weights` say, several times. `first`: so many records are in a file of their own, and the
    weights of each file's samples are alike: two data sets, mixed by their shares. Files may be
    compressed. Parcels have `parcel` bytes."""

    sizes: list[int]
    chosen: list[int]
    options: dict
    jobs: list[Job]
    along: int
    least: int
    is_packed: bool
    weights: Optional[list[int]]
    parcel: int
    first: Optional[int]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    sizes = draw(st.lists(st.integers(0, 300), min_size=1, max_size=70))
    chosen = list(range(len(sizes)))
    if draw(st.booleans()):  # others are between them
        gaps = draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes)))
        chosen = (np.cumsum(gaps) + np.arange(len(sizes))).tolist()
    options = {"seed": draw(st.integers(0, 99)), "shuffle": draw(st.booleans()),
               "chunk_samples": draw(st.integers(1, 12))}
    if options["shuffle"]:
        chunks = -(-len(sizes) // options["chunk_samples"])
        options |= draw(st.just({"order": "ordered"}) | st.fixed_dictionaries(
            {"shards": st.integers(1, chunks), "window": st.integers(1, 6)}))
    weights = first = None
    how = draw(st.sampled_from(["", "weights", "shares"])) if options["shuffle"] else ""
    if how == "weights":
        weights = [1, *draw(st.lists(st.integers(1, 3), min_size=len(sizes) - 1,
                                     max_size=len(sizes) - 1))]
    elif how == "shares" and len(sizes) > 1:
        of_first = draw(st.integers(1, len(sizes) - 1))
        times = draw(st.permutations([1, draw(st.integers(1, 3))]))
        weights = of_first * [times[0]] + (len(sizes) - of_first) * [times[1]]
        first = chosen[of_first]
    if weights is not None:
        rows = [i for times in range(3) for i, weight in enumerate(weights) if weight > times]
        sizes, chosen = [sizes[i] for i in rows], [chosen[i] for i in rows]
    last = draw(st.sampled_from(["spread", "spread", "drop", "mask"]))
    most = draw(st.sampled_from([1, 3, 8]))
    is_packed = draw(st.sampled_from([False, False, False, True]))  # and kept anyway
    caches = [None] if is_packed else [None, None, 3 << 12, 1 << 20]

    def job(steps: Optional[int], lost: int) -> Job:
        batch = draw(st.integers(1, 8).map(lambda size: {"batch_size": size})
                     | st.integers(8, 24).map(lambda size: {"global_batch_size": size}))
        return Job(draw(st.integers(1, most)), draw(st.integers(1, 3)), {**batch, "last": last},
                   steps, lost, tuple(draw(st.sets(st.sampled_from(CHOSEN)))),
                   draw(st.sampled_from([1, 1, 1, 2])),
                   draw(st.none() | st.integers(1, 20)),
                   {"deal": draw(st.sampled_from(["node", "node", "job"])),
                    "cache": draw(st.sampled_from(caches))})

    jobs = [job(draw(st.integers(0, 9)), draw(st.integers(0, 3)))
            for _ in range(draw(st.integers(0, 2)))]
    return Program(sizes, chosen, options, [*jobs, job(None, 0)],
                   draw(st.sampled_from([0, 500, ALONG])),
                   draw(st.sampled_from([1, 1000, LEAST])), is_packed, weights,
                   draw(st.sampled_from([1, 2000, parcels.BYTES])), first)


class Step(NamedTuple):
    """A step of a rank: what it says of itself, and the records' numbers."""

    epoch: int
    start: int
    end: int
    size: int
    slots: int
    weight: float
    numbers: list[int]


def take_steps(data: Data, job: Job, chosen: list[int]) -> tuple[list[Step], dict]:
    """What this rank takes until its last state, and that state."""
    source = StepSource(data, epoch_batches=job.loop,
                        **{"batch_size": None, "global_batch_size": None, **job.batch})
    history: list[Step] = []
    last_epoch, steps, state = data.epoch + 1, job.steps, data.state_dict()
    before = source.batches_until_here()
    while steps is None and data.epoch <= last_epoch or steps is not None and len(history) < steps:
        begun = source.begin()
        if job.loop is not None:  # they end where they would have without a stop
            assert begun.steps == job.loop - before % job.loop
            before = 0
        for step in source.samples(begun):
            items = decode_samples(data, read_step(data, source.member, step).samples,
                                   lambda sample: (sample.number, sample.data))
            for number, contents in items:
                assert contents == record(chosen[number], len(contents))
            info = step.info
            history.append(Step(info.epoch, info.start, info.end, info.size, info.slots,
                                info.weight, [number for number, _ in items]))
            data.advance(info.epoch, info.end)
            if job.counted is None or len(history) <= job.counted:
                state = data.state_dict()
            if len(history) == steps or steps is None and data.epoch > last_epoch:
                break
    return history[:job.counted], state


def record(number: int, size: int) -> bytes:
    return (number.to_bytes(2, "little") * 150)[:size]


def can_be(samples: int, batch: dict, ranks: int) -> bool:
    whole = batch.get("global_batch_size", ranks * batch.get("batch_size", 0))
    return ranks <= samples and (batch["last"] != "drop" or whole <= samples)


def write(folder: Path, program: Program) -> Union[Path, dict[Path, int]]:
    """What `open` is given: a file, or two and their shares."""
    sizes = dict(zip(program.chosen, program.sizes))
    records = [record(number, sizes.get(number, 77)) for number in range(max(program.chosen) + 1)]
    paths = [tfrecord(folder / "a.tfrecord", records[:program.first])]
    if program.first is not None:
        paths.append(tfrecord(folder / "b.tfrecord", records[program.first:]))
    for path in paths:
        if program.is_packed:
            path.write_bytes(gzip.compress(path.read_bytes()))
    if program.first is None:
        return paths[0]
    of_first = sum(number < program.first for number in program.chosen)
    return dict(zip(paths, (of_first, len(program.chosen) - of_first)))


def run(pattern: Union[Path, dict[Path, int]], program: Program, job: Job,
        state: Optional[dict]) -> tuple:
    """Steps of each rank, and the state after them."""
    options = {name: value for name, value in program.options.items()
               if state is None or name not in job.left_out
               # With other chunks there may be fewer of them.
               and not (name == "shards" and "chunk_samples" in job.left_out)}
    chosen = np.unique(program.chosen)
    weigh = (None if program.weights is None or program.first is not None
             else lambda table: program.weights)

    def on_rank(open_data, rank: int):
        with open_data(pattern, threads=1, groups=job.groups, choose=lambda table: chosen,
                       weights=weigh, **options, **job.kept) as data:
            if state is not None:
                data.load_state_dict(state)
            return *take_steps(data, job, program.chosen), data.order

    results = in_job(job.ranks * job.alike, on_rank, job.node_ranks)
    if not can_be(len(program.sizes), job.batch, job.ranks):
        assert {type(result) for result in results} == {InputError}
        assert len({str(result) for result in results}) == 1
        return None
    steps, states, orders = zip(*succeeded(results))
    assert all(result == states[0] for result in states)
    assert steps == steps[:job.ranks] * job.alike
    steps = steps[:job.ranks]
    return steps, orders[0], json.loads(json.dumps(states[0]))


@settings(max_examples=int(os.environ.get(EXAMPLES, 250)), deadline=None, database=None,
          derandomize=EXAMPLES not in os.environ, print_blob=True)
@given(programs())
def test_nothing_is_lost_and_nothing_comes_twice(program):
    samples = len(program.sizes)
    numbers_by_epoch: dict[int, list[int]] = {}
    position = {"epoch": 0, "position": 0}
    state = None
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(reader_process, "LEAVE_CACHED", False)
        patch.setattr(layout, "ALONG", program.along)
        patch.setattr(node_reads, "ALONG", program.along)
        patch.setattr(node_reads, "LEAST", program.least)
        patch.setattr(parcels, "BYTES", program.parcel)
        pattern = write(Path(folder), program)
        for job in program.jobs:
            outcome = run(pattern, program, job, state)
            if outcome is None:
                continue
            steps, order, state = outcome
            assert len({len(of_rank) for of_rank in steps}) == 1  # equally many steps
            for step in zip(*steps):
                check_step(step, position, order, job)
                first = step[0]
                numbers_by_epoch.setdefault(first.epoch, []).extend(
                    number for share in step for number in share.numbers)
                position = {"epoch": first.epoch, "position": first.end}
    last_epoch, last = max(numbers_by_epoch, default=-1), program.jobs[-1]
    for epoch, numbers in numbers_by_epoch.items():
        assert len(set(numbers)) == len(numbers)
        if last.batch["last"] != "drop" and epoch < last_epoch:
            assert sorted(numbers) == list(range(samples))
    if can_be(samples, last.batch, last.ranks):
        assert last_epoch >= 1
        if last.batch["last"] != "drop":
            assert sorted(numbers_by_epoch[last_epoch]) == list(range(samples))


def check_step(step: tuple[Step, ...], position: dict, order, job: Job) -> None:
    """Its ranks have what the order has at its positions, in shares of nearly one size."""
    first = step[0]
    assert {(share.epoch, share.start, share.end) for share in step} == {
        (first.epoch, first.start, first.end)}
    if first.epoch == position["epoch"]:
        assert first.start == position["position"]
    else:
        assert (first.epoch, first.start) == (position["epoch"] + 1, 0)
    numbers = [number for share in step for number in share.numbers]
    assert sorted(numbers) == sorted(
        order.at(first.epoch, np.arange(first.start, first.end)).tolist())
    sizes = [share.size for share in step]
    assert max(sizes) - min(sizes) <= 1
    assert abs(sum(share.weight for share in step) - job.ranks) < 1e-9
    if job.batch["last"] != "spread":
        whole = job.batch.get("global_batch_size", job.ranks * job.batch.get("batch_size", 0))
        assert sum(share.slots for share in step) == whole
