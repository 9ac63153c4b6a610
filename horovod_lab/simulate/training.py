"""Steps of training, and what the background threads of all modes have in common.

Times are seconds since the start of the simulation. docs/lab/simulation-model.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from horovod_lab.simulate import costs
from horovod_lab.simulate.modes.nbcs import Naps
from horovod_lab.simulate.parameters import Parameters
from horovod_lab.simulate.processor_sharing import Cores

WARM_UP = 3  # steps that are not counted: ranks start in step
TRACED = 4  # ranks of which `Result.trace` tells


@dataclass
class Result:
    """One mode at one number of ranks; seconds a step, mean over ranks where ranks differ."""

    steps: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)  # until a rank's last gradient
    waiting: list[float] = field(default_factory=list)  # for the slowest rank's last gradient
    data: list[float] = field(default_factory=list)  # moved after the mean rank's last gradient
    background_cpu: float = 0.0  # share of a core
    cycles: int = 0  # with topo: buckets
    agreements: int = 0  # of the leaders of groups that share memory, in mode topo
    rounds: int = 0  # of negotiation in mode topo
    trace: list[tuple[int, str, float, float]] = field(default_factory=list)


class Training:
    """What all modes have in common. Ranks that wait for each other nap, or spin without `naps`."""

    planned = False  # whether buckets are reduced as planned

    def __init__(self, p: Parameters, ranks: int, cores: Cores, naps: Naps | None, steps: int,
                 seed: int, trace: bool, report: Callable[[], None]):
        self.p, self.ranks, self.cores, self.naps, self.report = p, ranks, cores, naps, report
        self.total, self.tracing = steps + WARM_UP, trace
        self.draws = np.random.default_rng([seed, ranks, 0])
        self.sleeps = np.random.default_rng([seed, ranks, 1])
        self.result = Result()
        self.now = 0.0  # of the background threads: they leave each meeting together
        self.step_start = 0.0
        self.data_end = 0.0  # when what has been started last is moved
        self.moves: list[tuple[float, float]] = []
        self.begin()

    def begin(self) -> None:
        """Before the first step."""
        raise NotImplementedError

    def run(self) -> Result:
        counted_from = 0.0
        for step in range(self.total):
            if step == WARM_UP:
                counted_from = self.step_start
                self.result.cycles = self.result.agreements = self.result.rounds = 0
                self.cores.background_seconds = 0.0
            self.traced = self.tracing and step == self.total - 1
            self.cores.begin(self.step_start, self.draws)
            self.moves.clear()
            self.train()
            if step >= WARM_UP:
                self._count()
                self.report()
            self.step_start = self.data_end
        seconds = max(self.now, self.step_start) - counted_from
        self.result.background_cpu = self.cores.background_seconds / self.ranks / seconds
        return self.result

    def train(self) -> None:
        raise NotImplementedError

    def _count(self) -> None:
        ready = float(self.cores.ready.mean())
        self.result.steps.append(self.data_end - self.step_start)
        self.result.compute.append(ready - self.step_start)
        self.result.waiting.append(float(self.cores.ready.max()) - ready)
        self.result.data.append(sum(max(0.0, end - max(begin, ready)) for begin, end in self.moves))

    def oversleeps(self, woken: np.ndarray, asleep: np.ndarray | float) -> np.ndarray:
        """How long after its time each of the woken threads runs; it has been asleep for so long.

        The kernel's slack, and a wait for a core if the rank's are busy then."""
        late = np.where(woken, self.p.timer_slack_seconds, 0.0)
        in_window = (self.cores.window_left > asleep) & (self.now + asleep >= self.step_start)
        if self.cores.working and in_window.any():
            chance = self.cores.busy[np.count_nonzero(in_window, axis=1)][:, None]
            unlucky = woken & (self.sleeps.random(self.cores.shape, dtype=np.float32) < chance)
            late[unlucky] += self.p.run_delay_seconds * self.sleeps.standard_exponential(
                np.count_nonzero(unlucky))
        return late

    def work(self, size: float) -> float:
        """CPU seconds of each rank to reduce `size` bytes."""
        return costs.data_work(self.p, self.ranks, size, self.planned) + self.packing(size)

    def packing(self, size: float) -> float:
        """CPU seconds of each rank for the tensors of `size` bytes, into a buffer and back."""
        return self.p.tensors * self.p.tensor_seconds * size / self.p.gradient_bytes

    def network(self, size: float) -> float:
        """Seconds in which they cross the network, or between GPUs."""
        raise NotImplementedError

    def move(self, start: float, size: float) -> float:
        """Reduces `size` bytes; returns when the background threads are free again."""
        p, cores = self.p, self.cores
        network, work = self.network(size), self.work(size)
        everyone = np.ones(cores.shape, bool)
        _, share = cores.sharing(cores.shape[1], real_work=True)
        free = start + work / float(share.min())
        cores.advance(start, free, everyone, real_work=True)
        begin = max(self.data_end, start if p.data_cpu_seconds_per_byte else free)
        self.data_end = max(begin, free) + network
        self.moves.append((begin, self.data_end))
        self.record("data", start, self.data_end)
        if not p.data_cpu_seconds_per_byte:
            return free
        cores.advance(free, self.data_end, everyone)  # waits in MPI; the framework goes on
        return self.data_end

    def record(self, state: str, begin: np.ndarray | float, end: np.ndarray | float) -> None:
        if not self.traced:
            return
        begins, ends = (np.broadcast_to(times, self.cores.shape).ravel() for times in (begin, end))
        for rank in range(min(TRACED, self.ranks)):
            if ends[rank] > begins[rank]:
                self.result.trace.append((rank, state, float(begins[rank] - self.step_start),
                                          float(ends[rank] - self.step_start)))
