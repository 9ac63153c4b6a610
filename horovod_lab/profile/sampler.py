"""Counters of all threads of all ranks, over time.

Only a thread that has run since the last sample is looked at more closely: most of a framework's
threads sleep, and cost one short file each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from horovod_lab.profile.names import names_of_rank, wait_kind
from horovod_lab.profile.proc import Proc
from horovod_lab.profile.ranks import RankProcess

MOST_SAMPLES = 1200  # then every other one is given up, and only every other one kept from there on
# Upstream's background thread shows itself by how it waits: ROUNDS times LOOKS looks of 1 ms.
ROUNDS, LOOKS = 10, 20
OFTEN = 50  # wake-ups: what has had fewer is not worth these looks


@dataclass(frozen=True)
class Usage:
    """What threads have used; times in seconds."""

    cpu: float = 0.0
    system: float = 0.0
    voluntary: int = 0
    involuntary: int = 0
    run_delay: float = 0.0
    wakeups: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(a + b for a, b in zip(self.values(), other.values())))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*(a - b for a, b in zip(self.values(), other.values())))

    def values(self) -> tuple:
        return (self.cpu, self.system, self.voluntary, self.involuntary, self.run_delay,
                self.wakeups)


class SampledThread:
    """One thread. `series` has what it had used, by sample, where it differs from the sample
    before."""

    def __init__(self, proc: Proc, pid: int, tid: int):
        self.pid, self.tid, self.name = pid, tid, ""
        self.last = 0  # sample in which it was last seen
        self.waits: dict[str, int] = {}
        self.series: dict[int, Usage] = {}
        self._proc = proc
        self._schedstat: tuple[int, int, int] | None = None

    @property
    def wakeups(self) -> int:
        return self._schedstat[2] if self._schedstat else 0

    @property
    def cpu(self) -> float:
        return self._schedstat[0] * 1e-9 if self._schedstat else 0.0

    def sample(self, number: int) -> None:
        self.last = number
        schedstat = self._proc.schedstat(self.pid, self.tid)
        if schedstat is None or schedstat == self._schedstat:
            return
        stat = self._proc.stat(self.pid, self.tid)
        switches = self._proc.switches(self.pid, self.tid)
        if stat is None or switches is None:
            return
        self._schedstat, self.name = schedstat, stat.name
        cpu = schedstat[0] * 1e-9
        # The kernel scales user and system to the exact sum, and rounds both to clock ticks.
        self.series[number] = Usage(cpu, min(stat.system, cpu), *switches, schedstat[1] * 1e-9,
                                    schedstat[2])

    def look_at_wait(self) -> None:
        function = self._proc.waits_in(self.pid, self.tid)
        if function:
            kind = wait_kind(function)
            self.waits[kind] = self.waits.get(kind, 0) + 1

    def changes(self) -> Iterator[tuple[int, Usage]]:
        """(sample, what was used since the sample before), from the start of the thread."""
        before = Usage()
        for number, usage in self.series.items():
            yield number, usage - before
            before = usage

    def since(self, sample: int) -> Usage:
        """What was used after that sample, or after the first if there was none until then."""
        last = before = None
        for number in reversed(self.series):
            before = self.series[number]
            last = last or before
            if number <= sample:
                break
        return last - before if last else Usage()

    def thin(self) -> None:
        self.last = -(-self.last // 2)
        self.series = {-(-number // 2): usage for number, usage in self.series.items()}


class SampledRank:
    """The threads of a rank and of the processes below it."""

    def __init__(self, process: RankProcess, first: int, cpus: list[int]):
        self.process = process
        self.first = self.last = first  # samples
        self.cpus = cpus
        self.ended = False
        self.threads: list[SampledThread] = []
        self._live: dict[tuple[int, int], SampledThread] = {}
        self._rounds = 0

    def sample(self, proc: Proc, number: int) -> None:
        live = {}
        for pid in (self.process.pid, *self.process.children):
            for tid in proc.threads(pid):
                thread = self._live.get((pid, tid))
                if thread is None:
                    thread = SampledThread(proc, pid, tid)
                    self.threads.append(thread)
                live[pid, tid] = thread
        self.ended = not any(pid == self.process.pid for pid, _ in live)
        if self.ended:
            return
        self._live, self.last = live, number
        main = self._live.get((self.process.pid, self.process.pid))
        for thread in live.values():
            before = thread.wakeups
            thread.sample(number)
            # Threads of the main one's name need more than that to be told apart.
            moved = thread.wakeups != before or not thread.waits
            if main and thread.pid == main.pid and thread.name == main.name and moved:
                thread.look_at_wait()

    def look_closely(self) -> list[SampledThread]:
        """The threads among which upstream's background thread may be, for a round of looks."""
        main = self._live.get((self.process.pid, self.process.pid))
        of_process = [thread for thread in self._live.values() if main and thread.pid == main.pid]
        if self._rounds == ROUNDS or any(thread.name.startswith("hvd-") for thread in of_process):
            return []
        loose = [thread for thread in of_process
                 if thread is not main and thread.name == main.name and thread.wakeups >= OFTEN]
        self._rounds += bool(loose)
        return loose

    def names(self) -> dict[SampledThread, str]:
        """By what evidence there is until now."""
        of_process = [thread for thread in self.threads
                      if thread.pid == self.process.pid and thread.series]
        names = names_of_rank(of_process, self.process.pid)
        return {thread: names[thread.tid] if thread.pid == self.process.pid
                else f"@child {thread.name}"
                for thread in self.threads if thread.series}

    def live_threads(self) -> Iterable[SampledThread]:
        return self._live.values()

    def thin(self) -> None:
        self.first, self.last = -(-self.first // 2), -(-self.last // 2)
        for thread in self.threads:
            thread.thin()


class Sampler:
    """`times[i]` is when sample i was taken. Memory stays bounded: `MOST_SAMPLES`."""

    def __init__(self, proc: Proc):
        self.ranks: dict[int, SampledRank] = {}  # by pid
        self.times: list[float] = []
        self.samples = 0
        self._proc = proc
        self._every = 1

    def sample(self, time: float, processes: Iterable[RankProcess]) -> None:
        if self.samples % self._every == 0:
            if len(self.times) == MOST_SAMPLES:
                self._thin()
            self.times.append(time)
        else:
            self.times[-1] = time
        self.samples += 1
        number = len(self.times) - 1
        for process in processes:
            rank = self.ranks.get(process.pid)
            if rank is None:
                rank = SampledRank(process, number, self._proc.cpus(process.pid))
                self.ranks[process.pid] = rank
            if not rank.ended:
                rank.sample(self._proc, number)

    def _thin(self) -> None:
        """What was used up to an odd sample counts for the even one after it."""
        self._every *= 2
        for rank in self.ranks.values():
            rank.thin()
        self.times = self.times[::2] if len(self.times) % 2 else [*self.times[::2], self.times[-1]]
