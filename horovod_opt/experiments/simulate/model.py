"""The cycles of all background threads, step after step, by the rules of each mode.

Times are seconds since the start of the simulation. docs/simulation.md has the equations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from horovod_opt.experiments.simulate import costs
from horovod_opt.experiments.simulate.cores import Cores
from horovod_opt.experiments.simulate.parameters import ParameterError, Parameters
from horovod_opt.experiments.simulate.waits import Naps, meet

MODES = ("off", "gs", "nbcs", "scp", "topo", "topo+scp", "gs+nbcs", "gs+scp", "nbcs+scp")
WARM_UP = 3  # steps that are not counted: ranks start in step
FREED_AT_ONCE = 16 * 2**20  # bytes
TRACED = 4  # ranks of which `Result.trace` tells


@dataclass
class Result:
    """One mode at one number of ranks; seconds a step, mean over ranks where ranks differ."""

    steps: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)  # until a rank's last gradient
    waiting: list[float] = field(default_factory=list)  # for the slowest rank's last gradient
    data: list[float] = field(default_factory=list)  # moved after the mean rank's last gradient
    background_cpu: float = 0.0  # share of a core
    cycles: int = 0
    trace: list[tuple[int, str, float, float]] = field(default_factory=list)


def simulate(p: Parameters, mode: str, ranks: int, steps: int, seed: int, trace: bool = False,
             done: Callable[[], None] = lambda: None) -> Result:
    """`steps` steps after a few that are not counted; `done` is called after each.

    Draws of the computation depend on the seed and the number of ranks alone, so that all modes
    compute under the same luck. With `trace` the last step is in `Result.trace` as (rank, what,
    from, to).

    Raises:
        ParameterError: the mode is unknown or impossible, or the ranks do not fill the nodes.
    """
    check(p, mode, ranks)
    # glibc keeps freed memory once so much was freed at a time, instead of getting each array's
    # pages from the kernel anew: a third of the time at 24,576 ranks. See mallopt(3).
    np.empty(FREED_AT_ONCE, np.uint8)
    kind = _Planned if "topo" in mode.split("+") else _Negotiated
    return kind(p, mode.split("+"), ranks, steps, seed, trace, done).run()


def check(p: Parameters, mode: str, ranks: int) -> None:
    """Raises ParameterError if the mode is unknown, or the ranks do not fill their nodes."""
    if mode not in MODES:
        raise ParameterError(f"{mode!r} is no mode that is simulated; there are {', '.join(MODES)}")
    if ranks > p.ranks_per_domain and ranks % p.ranks_per_domain:
        raise ParameterError(f"{ranks} ranks do not fill nodes of {p.ranks_per_node:g} that share "
                             "their cores; remedy: a multiple, or --set ranks_per_node=...")


class _Training:
    """What negotiated and planned steps have in common."""

    planned: bool

    def __init__(self, p: Parameters, modes: Sequence[str], ranks: int, steps: int, seed: int,
                 trace: bool, done: Callable[[], None]):
        self.p, self.modes, self.ranks, self.done = p, modes, ranks, done
        self.total, self.tracing = steps + WARM_UP, trace
        self.naps = Naps(p) if "nbcs" in modes else None
        self.cores = Cores(
            p, ranks, "scp" in modes, bool(p.yields) and modes != ["off"] and not self.naps,
            wanted=p.poll_seconds / self.naps.longest if self.naps else 1.0)
        self.draws = np.random.default_rng([seed, ranks, 0])
        self.sleeps = np.random.default_rng([seed, ranks, 1])
        self.result = Result()
        self.now = 0.0  # of the background threads: they leave each meeting together
        self.step_start = 0.0
        self.data_end = 0.0  # when what has been started last is moved
        self.moves: list[tuple[float, float]] = []

    def run(self) -> Result:
        counted_from = 0.0
        for step in range(self.total):
            if step == WARM_UP:
                counted_from, self.result.cycles = self.step_start, 0
                self.cores.background_seconds = 0.0
            self.traced = self.tracing and step == self.total - 1
            self.cores.begin(self.step_start, self.draws)
            self.moves.clear()
            self.train()
            if step >= WARM_UP:
                self._count()
                self.done()
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

    def move(self, start: float, size: float, buffer: float) -> float:
        """Reduces `size` bytes in buffers; returns when the background threads are free again."""
        p, cores = self.p, self.cores
        packing = p.tensors * p.tensor_seconds * size / p.gradient_bytes
        buffers = max(1, math.ceil(size / buffer - 1e-9))
        network = buffers * costs.data_allreduce(p, self.ranks, size / buffers)
        everyone = np.ones(cores.shape, bool)
        work = costs.data_work(p, self.ranks, size, self.planned) + packing
        _, share = cores.sharing(cores.shape[1], real_work=True)
        free = start + work / float(share.min())
        cores.advance(start, free, everyone, real_work=True)
        begin = max(self.data_end, start if p.data_cpu_seconds_per_byte else free)
        self.data_end = max(begin, free) + network
        self.moves.append((begin, self.data_end))
        self.record("data", start, self.data_end)
        if not p.data_cpu_seconds_per_byte:
            return free
        cores.advance(free, self.data_end, everyone)  # blocked in MPI; the framework goes on
        return self.data_end

    def record(self, what: str, begin: np.ndarray | float, end: np.ndarray | float) -> None:
        if not self.traced:
            return
        begins, ends = (np.broadcast_to(times, self.cores.shape).ravel() for times in (begin, end))
        for rank in range(min(TRACED, self.ranks)):
            if ends[rank] > begins[rank]:
                self.result.trace.append((rank, what, float(begins[rank] - self.step_start),
                                          float(ends[rank] - self.step_start)))


class _Negotiated(_Training):
    """Modes off, gs, nbcs, scp: cycles, with a meeting of all in each."""

    planned = False

    def train(self) -> None:
        if self.now == 0.0:
            self.cycle_start = np.zeros(self.cores.shape)
            self.hops = costs.hops(self.p, self.ranks)
            self.allreduce = costs.small_allreduce(self.p, self.ranks)
        self.sent = 0.0
        if self.ranks == 1:  # Horovod leaves out the allreduces
            self.cores.advance(self.now, self.now + 1e3 * self.p.compute_seconds, None)
            self.now = self.data_end = float(self.cores.ready.max())
            return
        while self.sent < 1.0:
            self.cycle()

    def cycle(self) -> None:
        p, cores, now = self.p, self.cores, self.now
        sleep = np.maximum(self.cycle_start + p.cycle_seconds - now, 0)
        if "gs" in self.modes and self.result.cycles % int(p.gs_interval) == 0:
            sleep, now = np.full(cores.shape, sleep.min()), self.agree(now)
        self.result.cycles += 1
        slept = sleep > 0
        wake = now + sleep
        if slept.any():
            wake += self.oversleeps(slept, sleep)
        self.record("asleep", now, now + sleep)
        self.record("overslept", now + sleep, wake)
        self.cycle_start = wake
        leave = self.meet(wake)
        cores.background_seconds += p.poll_seconds * self.ranks
        self.record("napping" if self.naps else "waiting", wake, leave)
        seen = self.compute(now, wake, leave)
        self.now = leave
        ready = self.appeared(seen)
        if ready > self.sent + 1e-9:
            size = (ready - self.sent) * p.gradient_bytes
            self.now = self.move(leave, size, p.fusion_bytes)
            self.sent = ready

    def meet(self, arrivals: np.ndarray) -> float:
        return meet(arrivals, self.hops, self.allreduce + self.turns(), self.naps)

    def turns(self) -> float:
        """Seconds until ranks that share their cores have answered each other in every hop.

        Who spins answers when it is its turn: with a share s of a core, in slices of
        `run_delay_seconds`, it waits for 1 - s of the time, and then half of slice (1 / s - 1) on
        average. Who yields or has a core of its own is not kept waiting."""
        cores = self.cores
        hops = math.ceil(math.log2(cores.shape[1]))
        if not hops or self.naps or cores.yields or cores.partitioned:
            return 0.0
        share = float(cores.sharing(cores.shape[1])[1].min())
        wait = self.p.run_delay_seconds * (1 - share) ** 2 / (2 * share)
        return hops * wait

    def agree(self, now: float) -> float:
        leave = self.meet(np.full(self.cores.shape, now))
        self.cores.advance(now, leave, np.ones(self.cores.shape, bool))
        self.record("waiting", now, leave)
        return leave

    def compute(self, now: float, wake: np.ndarray, leave: float) -> np.ndarray:
        """The framework goes on while its background thread sleeps, and then waits.

        Returns the progress that each rank has made when its thread wakes up and looks."""
        cores = self.cores
        waiting = np.ones(cores.shape, bool)
        if cores.shape[1] == 1:
            cores.advance(now, wake, None)
            seen = cores.progress()
            cores.advance(wake, leave, waiting)
            return seen
        order = np.argsort(wake, axis=1)
        position = np.argsort(order, axis=1)
        seen = np.zeros(cores.shape)
        begin: np.ndarray | float = now
        for count in range(cores.shape[1]):  # until the next of the domain wakes up
            end = np.take_along_axis(wake, order[:, count:count + 1], axis=1)
            cores.advance(begin, end, position < count if count else None)
            seen[position == count] = cores.progress()[position == count]
            begin = end
        cores.advance(begin, leave, waiting)
        return seen

    def appeared(self, progress: np.ndarray) -> float:
        """Which part of the gradients every rank has seen."""
        slowest, window = float(progress.min()), self.p.gradient_window
        if slowest >= 1 - 1e-12:
            return 1.0
        return max(0.0, (slowest - (1 - window)) / window) if window else 0.0


class _Planned(_Training):
    """Mode topo: a bucket is reduced when the last rank has it complete, and nobody polls."""

    planned = True

    def train(self) -> None:
        p = self.p
        buckets = math.ceil(p.gradient_bytes / p.bucket_bytes)
        now = self.step_start
        for bucket in range(1, buckets + 1):
            target = 1 - p.gradient_window * (1 - bucket / buckets)
            complete, now = self.reach(target, now)
            if self.ranks == 1:
                continue
            woken = complete + self.oversleeps(np.ones(self.cores.shape, bool), 0.0)
            self.cores.background_seconds += p.poll_seconds * self.ranks
            start = max(now, float(woken.max()))
            self.record("asleep", self.data_end if self.moves else self.step_start, complete)
            self.record("overslept", complete, woken)
            self.cores.advance(now, start, None)
            now = self.move(start, p.gradient_bytes / buckets, p.bucket_bytes)
            self.result.cycles += 1
        self.now = self.data_end = max(self.data_end, now)

    def reach(self, target: float, now: float) -> tuple[np.ndarray, float]:
        """(when each rank is so far, when the last is)."""
        complete = np.full(self.cores.shape, now)
        while True:
            missing = self.cores.until(target)
            if target >= 1:
                complete = np.minimum(self.cores.ready, now + missing)
            else:
                complete = np.where(missing > 0, now + missing, complete)
            longest = float(missing.max())
            if longest <= 1e-12:
                return complete, now
            self.cores.advance(now, now + longest, None)
            now += longest
