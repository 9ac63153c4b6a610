"""Modes off, gs, nbcs, scp: cycles, with a meeting of all in each."""

from __future__ import annotations

import math

import numpy as np

from horovod_opt.simulate import costs
from horovod_opt.simulate.training import Training
from horovod_opt.simulate.waits import meet


class Negotiated(Training):
    def begin(self) -> None:
        self.cycle_start = np.zeros(self.cores.shape)
        self.hops = costs.hops(self.p, self.ranks)
        self.allreduce = costs.small_allreduce(self.p, self.ranks)

    def train(self) -> None:
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
            self.now = self.move(leave, size)
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

    def network(self, size: float) -> float:
        buffers = max(1, math.ceil(size / self.p.fusion_bytes - 1e-9))
        return buffers * costs.data_allreduce(self.p, self.ranks, size / buffers)
