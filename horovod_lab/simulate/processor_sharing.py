"""Who gets the cores: a fluid model of processor sharing, for all ranks at once.

Ranks that compete for the same cores form a domain; arrays are (domains, ranks of a domain). While
a domain wants more cores than it has, every thread gets the same share of one (Kleinrock, 1967,
doi:10.1145/321386.321388). Beside that, a thread that wakes up while no core is idle waits.
"""

from __future__ import annotations

import math

import numpy as np

from horovod_lab.simulate.parameters import Parameters

TOLERANCE = 1e-12  # seconds: what rounding may leave of a phase


def no_idle_core(threads: int, duty: float, cores: float) -> float:
    """Probability that at least `cores` of the threads want one, each for `duty` of the time."""
    needed = max(0, math.ceil(cores - 1e-9))
    return sum(math.comb(threads, k) * duty**k * (1 - duty) ** (threads - k)
               for k in range(needed, threads + 1))


class Cores:
    """The computation of all ranks in one step, as far as it has come.

    A background thread that waits wants `waiting_share` of a core; if it `yields`, only what nobody
    else wants. Mode scp has cores of its own kind (modes/scp.py).
    """

    taken_by_spinner = 1  # of these cores, by a background thread that spins

    def __init__(self, p: Parameters, ranks: int, yields: bool = False, waiting_share: float = 1.0):
        per_domain = min(p.ranks_per_domain, ranks)
        self.shape = (ranks // per_domain, per_domain)
        self.parameters, self.yields, self.waiting_share = p, yields, waiting_share
        self.cores = self.cores_to_share()
        self.pool = round(p.input_threads * self.cores / p.cores)
        self.demand = p.compute_threads + self.pool * p.input_duty
        # By the number of ranks of a domain that are in their window.
        self.busy = np.array([self.no_core_for_background(n) for n in range(per_domain + 1)])
        alone, beside = (no_idle_core(self.pool, p.input_duty, self.cores - cores_of_spinner)
                         for cores_of_spinner in (0, self.taken_by_spinner))
        self._window = p.cis_window * p.compute_seconds
        dispatches = p.dispatches_per_second * self._window
        self._waits = dispatches * alone, dispatches * (beside - alone)
        self.window_left = np.zeros(self.shape)  # CPU seconds of each of the rank's threads
        self.rest_left = np.zeros(self.shape)  # seconds that need no core: the GPU's
        self.ready = np.zeros(self.shape)  # when the last gradient is there
        self.working = False
        self.background_seconds = 0.0  # CPU time of all background threads

    def cores_to_share(self) -> float:
        """How many cores of a domain all threads share."""
        return self.parameters.cores

    def no_core_for_background(self, in_window: int) -> float:
        """Probability that a background thread wakes up while no core is idle."""
        p = self.parameters
        return no_idle_core(in_window * self.pool, p.input_duty,
                            self.cores - in_window * p.compute_threads) if in_window else 0.0

    def begin(self, start: float, draws: np.random.Generator) -> None:
        """A step. For how long its graph scheduling will wait is drawn now: as often as
        `dispatches_per_second` says, and longer beside a background thread that spins."""
        self.window_left.fill(self._window)
        self.rest_left.fill(self.parameters.compute_seconds - self._window)
        self.ready.fill(np.inf)
        self.working, self._start = True, start
        self._slower, self._slower_by_spinning = np.float64(1.0), None
        if self._window:
            waits, by_spinning = (self._draw(mean, draws) for mean in self._waits)
            self._slower = self._slower if waits is None else 1.0 + waits
            self._slower_by_spinning = by_spinning

    def _draw(self, waits: float, draws: np.random.Generator) -> np.ndarray | None:
        """A compound Poisson sum of exponential delays, per second of the window."""
        counts = draws.poisson(waits, self.shape)
        delays = draws.standard_gamma(counts) * self.parameters.run_delay_seconds
        return delays / self._window if waits else None

    def progress(self) -> np.ndarray:
        """How far each rank is, 0 to 1."""
        return 1 - (self.window_left + self.rest_left) / self.parameters.compute_seconds

    def sharing(self, spinners: np.ndarray | float, real_work: bool = False
                ) -> tuple[np.ndarray, np.ndarray]:
        """By domain: (share of a core that each computing thread gets, share of what it wants that
        each background thread gets). `spinners`: cores that the background threads want."""
        computing = np.count_nonzero(self.window_left > 0, axis=1, keepdims=True) * self.demand
        if self.yields and not real_work:
            share = np.minimum(1, self.cores / np.maximum(computing, 1e-9))
            return share, np.clip((self.cores - computing) / np.maximum(spinners, 1e-9), 0, 1)
        share = np.minimum(1, self.cores / np.maximum(computing + spinners, 1e-9))
        return share, share

    def rates(self, share: np.ndarray, running: np.ndarray | None,
              waiting_share: float = 1.0) -> np.ndarray:
        """Window seconds that each rank gets through in a second."""
        slower = self._slower
        if self._slower_by_spinning is not None and running is not None:
            slower = slower + self._slower_by_spinning * running * waiting_share
        return share / slower

    def spinners(self, running: np.ndarray | None, waiting_share: float) -> np.ndarray | float:
        """By domain: cores that the background threads want."""
        if running is None:
            return 0.0
        of_domain = (np.count_nonzero(running, axis=1, keepdims=True) if running.dtype == bool
                     else running.sum(axis=1, keepdims=True))
        return waiting_share * of_domain

    def advance(self, begin: np.ndarray | float, end: np.ndarray | float,
                running: np.ndarray | None, real_work: bool = False) -> None:
        """From `begin` to `end`, by domain as (domains, 1) or for all.

        `running`: whose background thread wants a core, or how many threads of each rank, as
        (domains, ranks); None: nobody's. With `real_work` they do not yield."""
        waiting_share = 1.0 if real_work else self.waiting_share
        spinners = self.spinners(running, waiting_share)
        if not self.working:
            if running is not None:
                _, share = self.sharing(spinners, real_work)
                self.background_seconds += float(np.sum(share * spinners * (end - begin)))
            return
        clock = np.maximum(begin, self._start)
        remaining = np.maximum(end - clock, 0)
        if running is not None:  # before the step begins, nobody else wants the cores
            before = np.minimum(clock, end) - begin
            self.background_seconds += float(np.sum(np.maximum(before, 0) * spinners))
        while True:
            share, background = self.sharing(spinners, real_work)
            rates = self.rates(share, running, waiting_share)
            needed = self.window_left / rates
            step = remaining
            if self.shape[1] > 1:  # until the first of a domain leaves its window
                first = np.where(self.window_left > 0, needed, np.inf).min(axis=1, keepdims=True)
                step = np.minimum(remaining, first)
            if running is not None:
                self.background_seconds += float(np.sum(background * spinners * step))
            in_window = np.minimum(needed, step)
            self.window_left -= in_window * rates
            through = needed <= step + TOLERANCE
            self.window_left[through] = 0.0
            rest = step - in_window
            ending = through & (self.rest_left <= rest + TOLERANCE) & np.isinf(self.ready)
            if ending.any():
                finished = clock + in_window + self.rest_left
                self.ready[ending] = finished[ending]
                self.working = bool(np.isinf(self.ready).any())
            self.rest_left = np.maximum(self.rest_left - rest, 0)
            self.rest_left[ending] = 0.0
            clock, remaining = clock + step, remaining - step
            if not (remaining > TOLERANCE).any():
                return

    def until(self, progress: float, running: np.ndarray | None = None, real_work: bool = False
              ) -> np.ndarray:
        """Seconds until each rank has come so far, if no rank leaves its window before; 0 where it
        has. `running`, `real_work`: as in `advance`."""
        to_go = np.maximum(self.window_left + self.rest_left
                           - (1 - progress) * self.parameters.compute_seconds, 0)
        in_window = np.minimum(to_go, self.window_left)
        return in_window / self._rates(running, real_work) + (to_go - in_window)

    def until_leaving(self, running: np.ndarray | None, real_work: bool = False) -> float:
        """Seconds until the first rank leaves its window; infinite if none is in it."""
        remaining = np.where(self.window_left > 0, self.window_left, np.inf)
        return float((remaining / self._rates(running, real_work)).min())

    def _rates(self, running: np.ndarray | None, real_work: bool) -> np.ndarray:
        waiting_share = 1.0 if real_work else self.waiting_share
        share, _ = self.sharing(self.spinners(running, waiting_share), real_work)
        return self.rates(share, running, waiting_share)
