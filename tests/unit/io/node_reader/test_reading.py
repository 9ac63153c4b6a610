"""A reader and its ranks in one process: the right bytes, in the memory that they may have."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from events import MINUTE, keep_cached, thread_names, wait_until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from node_data import Data, Loads, loads_of, one_file

from horovod_opt.io.errors import InputError, ReaderEnded
from horovod_opt.io.node_reader import node_cache
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.reader_process import Reader
from horovod_opt.io.node_reader.record_request import LocatedSteps
from horovod_opt.io.node_reader.records import CHANGED, CHECKSUM, GOOD, TRUNCATED, describe, reason

PAGE = os.sysconf("SC_PAGESIZE")
SLOW = settings(max_examples=25, deadline=None,
                suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def live_bytes(loads: Loads, sizes: np.ndarray) -> int:
    """At the worst step: brute force."""
    return max(int(sizes[loads.chunk[(loads.first <= step) & (loads.last >= step)]].sum())
               for step in range(int(loads.last.max()) + 1))


class Node:
    """A reader and its ranks in one process; closes them."""

    def __init__(self, data: Data, chunk_samples: int, memory: int, ranks: int = 1, **options):
        self.reader = Reader(data, chunk_samples, memory, ranks, **options)
        self.members = [Member(data, chunk_samples, self.reader.address, rank)
                        for rank in range(ranks)]

    def feed(self, loads: Loads) -> None:
        self.reader.feed(loads)
        for member in self.members:
            member.feed(loads)

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_) -> None:
        for member in self.members:
            member.close()
            member.holes.close()  # the data's, who may look at them after the member has ended
        self.reader.stop()


@st.composite
def programs(draw):
    """Sizes of records, samples of a chunk, ranks, and which samples each rank takes when."""
    sizes = draw(st.lists(st.integers(0, 20_000), min_size=1, max_size=60))
    chunk_samples = draw(st.integers(1, 9))
    ranks = draw(st.integers(1, 3))
    batch = draw(st.integers(1, 8))
    # Nearly in order, as within windows.
    window = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    order = np.argsort(np.arange(len(sizes)) + rng.uniform(0, window, len(sizes)))
    steps = np.array_split(order, max(len(order) // (batch * ranks), 1))
    shares = [np.array_split(step, ranks) for step in steps]
    return sizes, chunk_samples, shares, draw(st.booleans())


@SLOW
@given(programs(), st.integers(1, 4))
def test_each_rank_gets_its_bytes_in_the_least_memory(tmp_path, program, threads):
    """Ranks run free: with memory for the worst step only, none may wait for ever."""
    sizes, chunk_samples, steps, checksums = program
    data = one_file(tmp_path, sizes)
    if checksums:
        data.with_checksums()
    ranks = len(steps[0])
    loads = loads_of([np.concatenate(step) for step in steps], chunk_samples)
    probe = Reader(data, chunk_samples, 1 << 30, 1)
    probe.stop()
    needed = live_bytes(loads, probe.chunk_bytes)
    batches_of: list[list] = [[] for _ in range(ranks)]

    def run(member: Member) -> None:
        for step, parts in enumerate(steps):
            batch = member.take(step, parts[member.rank])
            assert batch.good.all()
            batches_of[member.rank].append([bytes(batch.part(i)) for i in range(len(batch))])
            member.done(step)

    with keep_cached(tmp_path / "data"), Node(data, chunk_samples, needed, ranks,
                                              threads=threads) as node:
        node.feed(loads)
        threads_ = [threading.Thread(target=run, args=(member,), daemon=True)
                    for member in node.members]
        for thread in threads_:
            thread.start()
        for thread in threads_:
            thread.join(MINUTE)
            assert not thread.is_alive()
        stats = node.reader.stats()
    for rank in range(ranks):
        assert batches_of[rank] == [[data.records[s][0] for s in step[rank]] for step in steps]
    assert stats.most_live_bytes <= needed
    assert stats.most_used_bytes <= needed + len(loads.chunk) * PAGE
    assert stats.loads == len(loads.chunk)
    assert stats.bytes_read + stats.cached_bytes == probe.chunk_bytes[loads.chunk].sum()


def test_less_memory_than_the_worst_step_needs_is_refused(tmp_path):
    data = one_file(tmp_path, [1000] * 8, gap=0)
    with Node(data, 2, 3999) as node:
        node.feed(Loads.of([(0, 0, 0), (1, 1, 1)]))
        overlapping = Loads.of([(2, 2, 3), (3, 3, 3)])
        with pytest.raises(InputError, match="step 3 needs 2 chunks with 4000 bytes at once, but "
                                             "memory= is 3999 bytes"):
            node.reader.feed(overlapping)
        one_by_one = Loads.of([(2, 2, 2), (3, 3, 3)])
        node.feed(one_by_one)  # nothing of what was refused counts
        for step in range(4):
            sample = np.array([2 * step])
            assert bytes(node.members[0].take(step, sample).part(0)) == data.records[2 * step][0]
            node.members[0].done(step)


def test_loads_out_of_order_are_refused(tmp_path):
    with Node(one_file(tmp_path, [10] * 8), 2, 1 << 20) as node:
        with pytest.raises(InputError, match="in the order of their first steps"):
            node.reader.feed(Loads.of([(0, 1, 1), (1, 0, 1)]))


def test_nothing_of_a_later_step_is_read_before_all_of_an_earlier_one(tmp_path):
    """The rank that is ahead gets nothing more while memory is taken by the step of a slow one."""
    data = one_file(tmp_path, [4096] * 6, gap=0)
    with Node(data, 1, 2 * 4096, ranks=2) as node:
        node.feed(Loads.of([(0, 0, 0), (1, 0, 0), (2, 1, 1), (3, 1, 1), (4, 2, 2), (5, 2, 2)]))
        ahead, slow = node.members
        ahead.take(0, np.array([0]))
        ahead.done(0)
        before = ahead.stats().wait_seconds
        waiting = threading.Thread(target=ahead.take, args=(1, np.array([2])))
        waiting.start()
        wait_until(lambda: node.reader.stats().loads == 2)
        wait_until(lambda: ahead.stats().wait_seconds > before + 0.2)
        assert waiting.is_alive()
        assert node.reader.stats().loads == 2
        slow.take(0, np.array([1]))
        slow.done(0)
        waiting.join(MINUTE)
        assert not waiting.is_alive()


def test_steps_end_in_any_order(tmp_path):
    """A chunk stays until all its steps have ended, also those before one that has."""
    data = one_file(tmp_path, [4096] * 4, gap=0)
    with Node(data, 1, 2 * 4096) as node:
        node.feed(Loads.of([(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 3)]))
        (member,) = node.members
        assert bytes(member.take(1, np.array([1])).part(0)) == data.records[1][0]
        member.done(1)
        assert bytes(member.take(0, np.array([0])).part(0)) == data.records[0][0]
        time.sleep(0.1)
        assert node.reader.stats().loads == 2
        member.done(0)
        assert bytes(member.take(3, np.array([3])).part(0)) == data.records[3][0]


def test_a_step_that_is_done_cannot_be_taken(tmp_path):
    with Node(one_file(tmp_path, [10] * 4), 2, 1 << 20) as node:
        node.feed(Loads.of([(0, 0, 0), (1, 1, 1)]))
        (member,) = node.members
        member.take(0, np.array([0]))
        member.done(0)
        with pytest.raises(InputError, match="step 0 of rank 0: over already"):
            member.take(0, np.array([0]))
        with pytest.raises(InputError, match="takes sample 3 of chunk 1|over already"):
            member.take(0, np.array([3]))
        with pytest.raises(InputError, match="rank 0 ends step 5000, but has not ended step 1"):
            member.done(5000)


def test_a_sample_that_was_not_fed(tmp_path):
    with Node(one_file(tmp_path, [10] * 9), 2, 1 << 20) as node:
        node.feed(Loads.of([(0, 0, 0), (2, 0, 0)]))
        for sample in (2, 8):
            with pytest.raises(InputError, match=f"takes sample {sample} of chunk"):
                node.members[0].take(0, np.array([sample]))


def test_what_is_skipped_is_not_read(tmp_path):
    data = one_file(tmp_path, [4096] * 100, gap=0)
    with Node(data, 1, 2 * 4096, ranks=2) as node:
        node.feed(Loads.of([(chunk, chunk, chunk) for chunk in range(100)]))
        for member in node.members:
            member.skip_to(90)
        for member in node.members:
            assert bytes(member.take(90, np.array([90])).part(0)) == data.records[90][0]
        stats = node.reader.stats()
        assert stats.loads <= 4 and stats.skipped_loads >= 86


def test_epochs_follow_each_other(tmp_path):
    """Loads are numbered on; a node cache much smaller than the epochs is used again and again."""
    data = one_file(tmp_path, np.random.default_rng(1).integers(0, 9000, 64)).with_checksums()
    with Node(data, 4, 1 << 17, start=1000) as node:
        (member,) = node.members
        for epoch in range(30):
            order = np.random.default_rng(epoch).permutation(16)
            steps = [np.arange(4 * chunk, 4 * chunk + 4) for chunk in order]
            node.feed(loads_of(steps, 4, start=1000 + 16 * epoch))
            for step, samples in enumerate(steps, 1000 + 16 * epoch):
                records = member.take(step, samples[::-1])
                assert records.good.all()
                assert [bytes(records.part(i)) for i in range(4)] == [
                    data.records[s][0] for s in samples[::-1]]
                member.done(step)


def test_samples_of_several_parts_in_several_files(tmp_path):
    rng = np.random.default_rng(2)
    names = [f"{i}.bin" for i in range(7)]
    for name in names:
        (tmp_path / name).write_bytes(rng.bytes(40_000))
    shape = (30, 2)
    file = rng.integers(0, 7, shape)
    offset = np.array([[10_000 * ((2 * i + p) % 4) for p in range(2)] for i in range(30)])
    data = Data(tmp_path, names, file, offset, rng.integers(0, 3000, shape)).with_checksums()
    steps = [rng.permutation(np.arange(15)), 15 + rng.permutation(np.arange(15))]
    with Node(data, 4, 1 << 20) as node:
        node.feed(loads_of(steps, 4))
        for step, samples in enumerate(steps):
            records = node.members[0].take(step, samples)
            assert records.good.all()
            for i, sample in enumerate(samples):
                assert [bytes(part) for part in records.parts(i)] == data.records[sample]


# Storage that fails


def take_all(data: Data) -> list[int]:
    samples = np.arange(len(data.offset))
    with Node(data, 4, 1 << 20) as node:
        node.feed(loads_of([samples], 4))
        records = node.members[0].take(0, samples)
        for i in np.flatnonzero(records.good):
            assert bytes(records.part(i)) == data.records[i][0]
        return records.status.ravel().tolist()


@pytest.mark.parametrize("checksums", [True, False])
def test_a_changed_byte_is_found_by_its_checksum(tmp_path, checksums):
    data = one_file(tmp_path, [100] * 8)
    if checksums:
        data.with_checksums()
    mtime = (tmp_path / "data").stat().st_mtime_ns
    with open(tmp_path / "data", "r+b") as file:
        file.seek(int(data.offset[5, 0]) + 50)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    os.utime(tmp_path / "data", ns=(mtime, mtime))
    if checksums:
        assert take_all(data) == [GOOD] * 5 + [CHECKSUM] + [GOOD] * 2
    else:
        with pytest.raises(AssertionError):  # nothing notices, but these are other bytes
            take_all(data)


@pytest.mark.parametrize("checksums", [True, False])
def test_a_file_that_ends_too_early(tmp_path, checksums):
    data = one_file(tmp_path, [100] * 8)
    if checksums:
        data.with_checksums()
    os.truncate(tmp_path / "data", int(data.offset[6, 0]) + 99)
    data.files.sizes[0] = (tmp_path / "data").stat().st_size
    data.files.mtimes_ns[0] = (tmp_path / "data").stat().st_mtime_ns
    assert take_all(data) == [GOOD] * 6 + [TRUNCATED] * 2


def test_a_file_that_was_replaced(tmp_path):
    data = one_file(tmp_path, [100] * 8)
    (tmp_path / "new").write_bytes((tmp_path / "data").read_bytes())
    os.replace(tmp_path / "new", tmp_path / "data")
    assert take_all(data) == [CHANGED] * 8
    assert "another size or time of change" in reason(CHANGED)
    text = describe(data, 3, 0, CHANGED)
    place = f"{tmp_path}/data, offset {data.offset[3, 0]}"
    assert text.startswith(f"{place}, sample 3 (key 3): its file has")
    assert "io index --rebuild" in text


def test_a_file_that_is_gone(tmp_path):
    data = one_file(tmp_path, [100] * 8)
    os.remove(tmp_path / "data")
    assert [reason(status) for status in take_all(data)] == ["No such file or directory"] * 8


# The end


def test_closing_wakes_who_waits(tmp_path, monkeypatch):
    """Nobody has fed what the rank waits for; or memory is full."""
    monkeypatch.setattr(node_cache, "PATIENCE_MS", int(MINUTE * 1000))  # one call is one wait
    data = one_file(tmp_path, [4096] * 4, gap=0)
    with Node(data, 1, 4096, ranks=2) as node:
        loads = Loads.of([(0, 0, 0), (1, 1, 1)])
        node.feed(loads)
        raised = []

        def wait(member: Member) -> None:
            with pytest.raises(ReaderEnded) as caught:
                member.take(1, np.array([1]))
            raised.append(str(caught.value))

        waiting = [threading.Thread(target=wait, args=(member,)) for member in node.members]
        for thread in waiting:
            thread.start()
        wait_until(lambda: all(member._cache._calls for member in node.members))
        node.members[0].close()
        waiting[0].join(MINUTE)
        assert raised == ["step 1 of rank 0: the reader is closed"]
        node.reader.stop()
        waiting[1].join(MINUTE)
        assert len(raised) == 2
        with pytest.raises(ReaderEnded, match="rank 0 has closed its reader"):
            node.members[0].take(1, np.array([1]))
        with pytest.raises(ReaderEnded, match="closed"):
            node.reader.feed(loads)


def test_a_reader_that_closes_serves_ranks_that_are_a_step_behind(tmp_path):
    data = one_file(tmp_path, [4096] * 4, gap=0)
    with Node(data, 1, 4096, ranks=2) as node:
        node.feed(Loads.of([(0, 0, 0), (1, 1, 1)]))
        first, behind = node.members
        first.close()
        node.reader.close()
        for step in range(2):
            assert bytes(behind.take(step, np.array([step])).part(0)) == data.records[step][0]
            behind.done(step)
        assert not node.reader.wait(0)
        behind.close()
        assert node.reader.wait(MINUTE)


def test_threads_and_descriptors_are_given_back(tmp_path):
    """In a process that has nothing else: those of other tests come and go."""
    program = ("import pathlib, runpy, sys\n"
               "runpy.run_path(sys.argv[1])['take_and_give_back'](pathlib.Path(sys.argv[2]))")
    subprocess.run([sys.executable, "-c", program, __file__, tmp_path], check=True,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def take_and_give_back(folder: Path) -> None:
    data = one_file(folder, [4096] * 4)

    def resources() -> Counter[str]:
        """Descriptors, memory, and threads by their names."""
        maps = Path("/proc/self/maps").read_text().splitlines()
        counts = Counter("a mapping" for line in maps if "memfd:horovod-opt" in line)
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # one that another thread closes now
                counts[os.readlink(descriptor)] += 1
        counts.update(thread_names())
        return counts

    before = resources()
    for _ in range(3):
        with Node(data, 1, 1 << 20, ranks=2) as node:
            node.feed(Loads.of([(0, 0, 0)]))
            node.members[0].take(0, np.array([0]))
            more = resources() - before
            assert more["a mapping"] >= 1 and more.total() > 10
    # A thread is seen for a moment after it was joined.
    wait_until(lambda: resources() - before == Counter())


def test_steps_of_several_pieces_are_located_together(tmp_path):
    """The second piece begins behind the end of the first one, as an epoch's windows may."""
    data = one_file(tmp_path, [100] * 3)
    with Node(data, 1, 1 << 20) as node:
        node.feed(Loads.of([(2, 0, 0), (0, 1, 1)]))
        node.feed(Loads.of([(1, 2, 2)]))
        loads, places, chunks = node.members[0].locate(np.array([0, 1, 2]), np.array([2, 0, 1]))
        assert loads.tolist() == [0, 1, 2] and places.shape == (3, 1)
        assert chunks.tolist() == [2, 0, 1]
        with pytest.raises(InputError, match="step 1 takes sample 1 of chunk 1, which this node"):
            node.members[0].locate(np.array([0, 1]), np.array([2, 1]))


def test_close_while_another_thread_stops(tmp_path):
    """As when the last rank of another process goes while this one closes."""
    data = one_file(tmp_path, [100])
    reader = Reader(data, 1, 1 << 20, 1)
    member = Member(data, 1, reader.address, 0)
    member.close()
    assert reader._cache is not None
    has_left, stopping = reader._cache.has_left, threading.Thread(target=reader.stop)

    def slow_has_left(rank: int) -> bool:
        if stopping.ident is None:
            stopping.start()
        stopping.join(0.2)
        return has_left(rank)

    reader._cache.has_left = slow_has_left
    reader.close()
    stopping.join()
    assert reader.wait(0)


def test_several_node_caches_in_one_process(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    sets = [one_file(tmp_path / name, [1000] * 8, seed) for seed, name in enumerate("ab")]
    with Node(sets[0], 2, 1 << 20) as training, Node(sets[1], 4, 1 << 20) as validation:
        training.feed(loads_of([np.arange(8)], 2))
        validation.feed(loads_of([np.arange(8)], 4))
        for node, data in ((training, sets[0]), (validation, sets[1])):
            records = node.members[0].take(0, np.arange(8))
            assert [bytes(records.part(i)) for i in range(8)] == [row[0] for row in data.records]


def test_steps_are_taken_together_in_the_least_memory(tmp_path):
    """Sizes from nothing on; a step without samples; and a step is done when it is taken."""
    data = one_file(tmp_path, np.arange(60) % 7 * 100).with_checksums()
    steps = [np.arange(6 * step, 6 * step + 6)[::-1] for step in range(10)]
    steps[4] = steps[4][:0]
    loads = loads_of(steps, 3)
    samples, ends = np.concatenate(steps), np.cumsum([len(step) for step in steps])
    probe = Reader(data, 3, 1 << 30, 1)
    probe.stop()
    with Node(data, 3, live_bytes(loads, probe.chunk_bytes)) as node:
        node.feed(loads)
        member, = node.members
        located = [member.locate(step, numbers) for step, numbers in enumerate(steps)]
        records_of_steps = member.take_steps(
            LocatedSteps(0, ends, samples, *map(np.concatenate, zip(*located))))
        for step, records in enumerate(records_of_steps):
            assert records.step == step and records.samples.tolist() == steps[step].tolist()
            assert records.is_good and records.good.all()
            assert [bytes(records.part(i)) for i in range(len(records))] == [
                data.records[sample][0] for sample in steps[step]]
            assert bytes(records.buffer) == b"".join(data.records[s][0] for s in steps[step])
        assert step == 9
        assert member.stats().records == len(samples)
        with pytest.raises(InputError, match="step 9 of rank 0: over already"):
            next(member.take_steps(LocatedSteps(9, np.array([6]), steps[9], *located[9])))


def test_a_bad_record_is_bad_in_its_step_alone(tmp_path):
    data = one_file(tmp_path, [100] * 12).with_checksums()
    data.crc[5] ^= 1
    with Node(data, 12, 1 << 20) as node:
        node.feed(Loads.of([(0, 0, 3)]))
        member, = node.members
        samples = np.arange(12)
        records_of_steps = list(member.take_steps(LocatedSteps(
            0, np.array([3, 6, 9, 12]), samples, *member.locate(0, samples))))
        assert [records.is_good for records in records_of_steps] == [True, False, True, True]
        assert records_of_steps[1].good.tolist() == [True, True, False]
