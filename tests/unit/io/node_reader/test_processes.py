"""A reader, ranks and workers in processes of their own, as in a job; some of them die."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import re
import signal
import socket
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from events import MINUTE, wait_until, without_descriptors
from node_data import Data, Loads, loads_of, one_file

from horovod_opt.io.errors import DataError, ReaderEnded
from horovod_opt.io.node_reader import handover
from horovod_opt.io.node_reader.handover import RANK, HandoverClient
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.reader_process import Reader
from horovod_opt.io.node_reader.record_request import LocatedSteps
from horovod_opt.io.node_reader.records import StepRecords

FORK = multiprocessing.get_context("fork")
SAMPLES, CHUNK, BATCH = 96, 4, 8


class Other:
    """A forked process that runs `function(say, *arguments)`; it ends with the test."""

    def __init__(self, function: Callable, *arguments: object):
        self.heard, self._say = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=self._run, args=(function, arguments))
        self.process.start()
        self._say.close()

    def _run(self, function: Callable, arguments: tuple) -> None:
        try:
            function(self._say.send, *arguments)
        except BaseException:
            self._say.send(traceback.format_exc())
            raise

    def hear(self) -> object:
        """The next thing that it says."""
        assert self.heard.poll(MINUTE), "nothing heard"
        return self.heard.recv()

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.process.pid, number)

    def wait_for(self, status: str) -> None:
        """Until it is stopped, or asleep."""
        wait_until(lambda: psutil.Process(self.process.pid).status() == status)

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


@pytest.fixture
def start():
    """Starts processes and ends them after the test."""
    started: list[Other] = []

    def start(function: Callable, *arguments: object) -> Other:
        started.append(Other(function, *arguments))
        return started[-1]

    yield start
    for process in started:
        process.end()


@pytest.fixture
def data(tmp_path) -> Data:
    sizes = np.random.default_rng(3).integers(0, 20_000, SAMPLES)
    return one_file(tmp_path, sizes).with_checksums()


def steps_of(ranks: int) -> list[list[np.ndarray]]:
    """By step and rank."""
    order = np.random.default_rng(4).permutation(SAMPLES // 16)
    samples = np.concatenate([16 * window + np.random.default_rng(window).permutation(16)
                              for window in order])
    return [np.array_split(step, ranks) for step in np.split(samples, SAMPLES // BATCH)]


def loads(ranks: int) -> Loads:
    return loads_of([np.concatenate(step) for step in steps_of(ranks)], CHUNK)


def lead(say: Callable, data: Data, ranks: int, memory: int = 1 << 20) -> None:
    """A process that is only the reader."""
    reader = Reader(data, CHUNK, memory, ranks)
    reader.feed(loads(ranks))
    say(reader.address)
    say(reader.wait(10 * MINUTE))


def rank(say: Callable, data: Data, address: str, number: int, ranks: int,
         pauses: dict[int, float] | None = None, stop: int | None = None) -> None:
    """A rank that takes all of its samples; stopped, as by Ctrl-Z, before a step."""
    member = Member(data, CHUNK, address, number)
    member.feed(loads(ranks))
    for step, parts in enumerate(steps_of(ranks)):
        time.sleep((pauses or {}).get(step, 0))
        if step == stop:
            os.kill(os.getpid(), signal.SIGSTOP)
        records = member.take(step, parts[number])
        assert records.good.all()
        assert [bytes(records.part(i)) for i in range(len(records))] == [
            data.records[sample][0] for sample in parts[number]]
        member.done(step)
    say("all")
    member.close()


def hold(say: Callable, data: Data, address: str, number: int, ranks: int) -> None:
    """A rank that takes its first step and never ends it."""
    member = Member(data, CHUNK, address, number)
    member.feed(loads(ranks))
    member.take(0, steps_of(ranks)[0][number])
    say("holds")
    time.sleep(10 * MINUTE)


def wait_for_ever(say: Callable, data: Data, address: str, number: int, step: int) -> None:
    """A rank that waits for what is never read; says why it does not go on, and nothing while it
    sees no death."""
    member = Member(data, CHUNK, address, number)
    member.feed(Loads.of([(0, step, step)]), number=step)
    say("waits")
    try:
        member.take(step, np.array([0]))
    except DataError as error:
        say(str(error))


def memory_of(process: str) -> set[str]:
    """Inodes of the sealed memory that these processes, by number or a glob, hold."""
    inodes = set()
    for maps in Path("/proc").glob(f"{process}/maps"):
        try:
            inodes.update(re.findall(r" (\d+) +/memfd:horovod-opt", maps.read_text()))
        except OSError:
            pass
    return inodes


def everyones_memory() -> set[str]:
    return memory_of("[0-9]*")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_same_bytes_in_every_rank(data, start, ranks):
    reader = start(lead, data, ranks, 200_000)
    address = reader.hear()
    all_ranks = [start(rank, data, address, number, ranks) for number in range(ranks)]
    assert [process.hear() for process in all_ranks] == ["all"] * ranks
    # Its memory has no name that could be left behind; multiprocessing's semaphores have.
    mapped = Path(f"/proc/{reader.process.pid}/maps").read_text()
    memory = memory_of(str(reader.process.pid))
    assert memory
    assert "/dev/shm/" not in mapped.replace("/dev/shm/sem.mp-", "")
    reader.end()
    for process in all_ranks:
        process.process.join()
    assert not memory & everyones_memory()


def test_a_slow_rank_and_a_stopped_one(data, start):
    address = start(lead, data, 3, 200_000).hear()
    slow = start(rank, data, address, 0, 3, {2: 0.5, 5: 0.5})
    stopped = start(rank, data, address, 1, 3, None, 1)
    fast = start(rank, data, address, 2, 3)
    stopped.wait_for(psutil.STATUS_STOPPED)
    assert not fast.heard.poll(0.5)  # it cannot run ahead of the memory
    stopped.kill(signal.SIGCONT)
    assert [process.hear() for process in (slow, stopped, fast)] == ["all"] * 3


def test_a_dead_rank_ends_the_others(data, start):
    address = start(lead, data, 3).hear()
    dying = start(hold, data, address, 1, 3)
    waiting = [start(wait_for_ever, data, address, number, 1000) for number in (0, 2)]
    assert dying.hear() == "holds"
    for process in waiting:
        assert process.hear() == "waits"
        process.wait_for(psutil.STATUS_SLEEPING)
    dying.kill()
    for process in waiting:
        assert "rank 1 of this node has ended without closing" in process.hear()


def test_a_dead_reader_ends_all(data, start):
    reader = start(lead, data, 2)
    address = reader.hear()
    memory = memory_of(str(reader.process.pid))
    assert memory
    waiting = [start(wait_for_ever, data, address, number, 1000) for number in range(2)]
    for process in waiting:
        assert process.hear() == "waits"
        process.wait_for(psutil.STATUS_SLEEPING)
    reader.kill()
    for process in waiting:
        assert "reader, which reads for this rank, has ended" in process.hear()
        process.process.join()
    assert not memory & everyones_memory()
    with pytest.raises(ReaderEnded, match="cannot connect to the node's reader"):
        Member(data, CHUNK, address, 0)


def lead_until(say: Callable, data: Data, ranks: int, error: Exception) -> None:
    """A reader whose schedule ends with an error behind its first load."""
    def pieces():
        yield Loads.of([(0, 0, 0)])
        raise error

    reader = Reader(data, CHUNK, 1 << 20, ranks)
    say(reader.address)
    reader.feed_pieces(pieces())
    say(reader.wait(10 * MINUTE))


@pytest.mark.parametrize("error, reason", [
    (IndexError("no chunk 7"), r"IndexError: no chunk 7 \(.*_processes.py, line \d+\); remedy:"),
    (DataError("shards=5; remedy: fewer"), r"cannot go on: shards=5; remedy: fewer$"),
    (OSError(5, "\u00e4" * 4000), "OSError: .Errno 5. \u00e4{900}")])
def test_what_the_reader_cannot_do_every_rank_hears_of(data, start, error, reason):
    address = start(lead_until, data, 2, error).hear()
    waiting = [start(wait_for_ever, data, address, number, 1000) for number in range(2)]
    for number, other in enumerate(waiting):
        assert other.hear() == "waits"
        text = other.hear()
        assert re.match(f"step 1000 of rank {number}: the node's reader, which reads for this rank",
                        text)
        assert re.search(reason, text)


def lead_with_child(say: Callable, data: Data) -> None:
    """A reader with a child that was forked after it was opened, and lives on."""
    reader = Reader(data, CHUNK, 1 << 20, 1)
    child = os.fork()
    if child == 0:
        time.sleep(10 * MINUTE)
        os._exit(0)
    say((reader.address, child))
    time.sleep(10 * MINUTE)


def test_a_child_of_the_reader_does_not_hide_its_death(data, start):
    reader = start(lead_with_child, data)
    address, child = reader.hear()
    try:
        waiting = start(wait_for_ever, data, address, 0, 1000)
        assert waiting.hear() == "waits"
        waiting.wait_for(psutil.STATUS_SLEEPING)
        reader.kill()
        assert "reader, which reads for this rank, has ended" in waiting.hear()
        waiting.process.join()
        maps = Path(f"/proc/{child}/maps").read_text()
        links = [os.readlink(path) for path in Path(f"/proc/{child}/fd").iterdir()]
        assert "memfd:horovod-opt" not in maps
        assert not [link for link in links if "memfd:horovod-opt" in link]
    finally:
        os.kill(child, signal.SIGKILL)


def message_of(records: StepRecords) -> tuple:
    return (records.step, records.good.all(), [bytes(records.part(i)) for i in range(len(records))])


def work(say: Callable, member: Member, located: dict[int, tuple]) -> None:
    """A DataLoader's worker, forked or with a copy: takes whole steps of its rank."""
    for step, where in located.items():
        records, = member.take_steps(LocatedSteps(step, np.array([len(where[0])]), *where))
        say(message_of(records))


def hold_step(say: Callable, member: Member, step: int) -> None:
    """A worker that does not come to the end of a step."""
    say(message_of(member.take(step, steps_of(1)[step][0])))
    time.sleep(10 * MINUTE)


def located(member: Member, steps: range) -> dict[int, tuple]:
    samples = {step: steps_of(1)[step][0] for step in steps}
    return {step: (numbers, *member.locate(step, numbers)) for step, numbers in samples.items()}


def expected(data: Data, step: int) -> tuple:
    return (step, True, [data.records[sample][0] for sample in steps_of(1)[step][0]])


@pytest.mark.parametrize("copied", [False, True])
def test_workers_attach_by_themselves_and_end_steps_out_of_order(data, start, copied):
    """With memory that steps which are not over must not take up."""
    own_reader = Reader(data, CHUNK, 1 << 20, 1)
    member = Member(data, CHUNK, own_reader.address, 0)
    own_reader.feed(loads(1))
    member.feed(loads(1))
    member_of_workers = pickle.loads(pickle.dumps(member)) if copied else member
    odd = start(work, member_of_workers, located(member, range(1, 12, 2)))
    assert odd.hear() == expected(data, 1)
    even = start(work, member_of_workers, located(member, range(0, 12, 2)))
    for step in range(0, 12, 2):
        assert even.hear() == expected(data, step)
    for step in range(3, 12, 2):
        assert odd.hear() == expected(data, step)
    for process in (odd, even):
        process.process.join()
    assert member.stats().records == SAMPLES
    member.close()
    own_reader.close()
    assert own_reader.wait(MINUTE)


def test_a_dead_worker_ends_nothing(data, start):
    """What it held stays, and another worker of the rank takes the step again."""
    reader = Reader(data, CHUNK, 1 << 20, 1)
    member = Member(data, CHUNK, reader.address, 0)
    reader.feed(loads(1))
    member.feed(loads(1))
    worker = start(hold_step, member, 0)
    assert worker.hear() == expected(data, 0)
    worker.kill()
    worker.process.join()
    assert start(work, member, located(member, range(1))).hear() == expected(data, 0)
    assert member.take(1, steps_of(1)[1][0]).good.all()
    member.close()
    reader.stop()


def use_reader(say: Callable, reader: Reader) -> None:
    with pytest.raises(ReaderEnded, match="opened before this process was forked"):
        reader.feed(loads(1))
    say("refused")


def test_a_forked_reader_says_what_it_is(data, start):
    reader = Reader(data, CHUNK, 1 << 20, 1)
    assert start(use_reader, reader).hear() == "refused"
    reader.feed(loads(1))
    reader.stop()


def forget_to_close(say: Callable, data: Data, address: str) -> None:
    member = Member(data, CHUNK, address, 0)
    member.feed(loads(1))
    member.take(0, steps_of(1)[0][0])
    say("taken")
    del member


def test_a_rank_that_forgets_to_close_has_not_died(data, start):
    address = start(lead, data, 2).hear()
    other = start(wait_for_ever, data, address, 1, 1000)
    assert other.hear() == "waits"
    forgetful = start(forget_to_close, data, address)
    assert forgetful.hear() == "taken"
    forgetful.process.join()
    assert not other.heard.poll(0.5)


# Who else connects


def test_strangers_and_second_ranks(data):
    reader = Reader(data, CHUNK, 1 << 20, 2)
    name, question, answer = reader.address.split(" ")
    silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    silent.connect(b"\0" + name.encode())  # says nothing, and holds up nobody
    member = Member(data, CHUNK, reader.address, 0)
    with pytest.raises(ReaderEnded, match="does not know this job's secret"):
        HandoverClient(f"{name} {'0' * 32} {answer}", RANK, 1)
    with pytest.raises(ReaderEnded, match="does not know this job's secret"):
        HandoverClient(f"{name} {question} {'0' * 32}", RANK, 1)
    with pytest.raises(DataError, match="refuses: rank 0 is connected already"):
        HandoverClient(reader.address, RANK, 0)
    with pytest.raises(DataError, match="refuses: it has 2 ranks, and no rank 2"):
        HandoverClient(reader.address, RANK, 2)
    reader.feed(loads(1))
    member.feed(loads(1))
    member.close()
    silent.close()
    reader.stop()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_without_descriptors_the_reader_sleeps_until_there_is_one(monkeypatch, number):
    """Then it answers who has waited."""
    times, has_room = without_descriptors(monkeypatch, number)
    file = os.memfd_create("cache")
    server = handover.HandoverServer([file], 1, lambda rank: None)
    with ThreadPoolExecutor() as threads:
        client = threads.submit(HandoverClient, server.address, RANK, 0)
        wait_until(lambda: len(times) >= 4)
        has_room.set()
        taken = client.result(MINUTE)
    assert os.path.sameopenfile(taken.files[0], file)
    taken.let_go()
    server.close()
    for taken_file in *taken.files, file:
        os.close(taken_file)
    assert min(np.diff(times)) >= handover._REST_SECONDS


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_is_refused(data):
    reader = Reader(data, CHUNK, 1 << 20, 1)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            HandoverClient(reader.address, RANK, 0)
        except DataError as error:
            os._exit("belongs to user 0, not 65534" in str(error))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    reader.stop()
    # The same from the reader's side: the taker trusts, the giver does not.
    reader = Reader(data, CHUNK, 1 << 20, 1)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        name, question, _ = reader.address.split(" ")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(MINUTE)
        try:
            connection.connect(b"\0" + name.encode())
            connection.send(f"{question} rank 0".encode())
            os._exit(connection.recv(100) == b"")
        except ConnectionError:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    reader.stop()
