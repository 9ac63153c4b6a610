"""Mode off, upstream's (6.2.2): in each cycle all ranks meet in a small allreduce, in which those
that wait spin; before the next one every rank sleeps what is left of its own cycle time.

gs, nbcs and scp are these cycles with one thing changed: how long ranks sleep (gs.py), how they
wait (nbcs.py), on which cores they run (scp.py)."""

from __future__ import annotations

import math

import numpy as np

from horovod_lab.simulate import costs
from horovod_lab.simulate.training import Training


def spin(arrivals: np.ndarray, cost: float) -> float:
    """When all leave an allreduce that takes `cost` seconds once the last has come."""
    return float(arrivals.max()) + cost


class Off(Training):
    def begin(self) -> None:
        self.cycle_start = np.zeros(self.cores.shape)
        self.hops = costs.hops(self.p, self.ranks)
        self.allreduce = costs.small_allreduce(self.p, self.ranks)

    def train(self) -> None:
        self.sent_share = 0.0
        if self.ranks == 1:  # Horovod leaves out the allreduces
            self.cores.advance(self.now, self.now + 1e3 * self.p.compute_seconds, None)
            self.now = self.data_end = float(self.cores.ready.max())
            return
        while self.sent_share < 1.0:
            self.cycle()

    def cycle(self) -> None:
        p, cores, now = self.p, self.cores, self.now
        sleep, now = self.sleep(np.maximum(self.cycle_start + p.cycle_seconds - now, 0), now)
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
        progress = self.compute(now, wake, leave)
        self.now = leave
        ready = self.appeared(progress)
        if ready > self.sent_share + 1e-9:
            size = (ready - self.sent_share) * p.gradient_bytes
            self.now = self.move(leave, size)
            self.sent_share = ready

    def sleep(self, local: np.ndarray, now: float) -> tuple[np.ndarray, float]:
        """(how long each rank sleeps, from when on), where `local` is left of its cycle time."""
        return local, now

    def meet(self, arrivals: np.ndarray) -> float:
        """When all leave the negotiation; nobody does before the last has come."""
        if self.naps:
            return self.naps.meet(arrivals, self.hops, self.allreduce)
        return spin(arrivals, self.allreduce + self.answer_delay())

    def answer_delay(self) -> float:
        """Seconds until ranks that share their cores have answered each other in every hop.

        A rank that spins answers when it gets the core: with a share s of a core, in slices of
        `run_delay_seconds`, it waits for 1 - s of the time, and then half of slice (1 / s - 1) on
        average. One that yields or has a core of its own is not kept waiting."""
        cores = self.cores
        hops = math.ceil(math.log2(cores.shape[1]))
        if not hops or cores.yields:
            return 0.0
        share = float(cores.sharing(cores.shape[1])[1].min())
        wait = self.p.run_delay_seconds * (1 - share) ** 2 / (2 * share)
        return hops * wait

    def compute(self, now: float, wake: np.ndarray, leave: float) -> np.ndarray:
        """The framework goes on while its background thread sleeps, and then waits.

        Returns the progress that each rank has made when its thread wakes up and looks."""
        cores = self.cores
        waiting = np.ones(cores.shape, bool)
        if cores.shape[1] == 1:
            cores.advance(now, wake, None)
            progress = cores.progress()
            cores.advance(wake, leave, waiting)
            return progress
        order = np.argsort(wake, axis=1)
        position = np.argsort(order, axis=1)
        progress = np.zeros(cores.shape)
        begin: np.ndarray | float = now
        for count in range(cores.shape[1]):  # until the next of the domain wakes up
            end = np.take_along_axis(wake, order[:, count:count + 1], axis=1)
            cores.advance(begin, end, position < count if count else None)
            progress[position == count] = cores.progress()[position == count]
            begin = end
        cores.advance(begin, leave, waiting)
        return progress

    def appeared(self, progress: np.ndarray) -> float:
        """Which part of the gradients every rank has seen."""
        slowest, window = float(progress.min()), self.p.gradient_window
        if slowest >= 1 - 1e-12:
            return 1.0
        return max(0.0, (slowest - (1 - window)) / window) if window else 0.0

    def network(self, size: float) -> float:
        buffers = max(1, math.ceil(size / self.p.fusion_bytes - 1e-9))
        return buffers * costs.data_allreduce(self.p, self.ranks, size / buffers)
