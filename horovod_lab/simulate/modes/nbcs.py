"""Mode nbcs, nonblocking cache synchronization (6.3.2): a rank that waits for the others tests a
nonblocking collective and sleeps between two tests, so that its core is free for other threads.
Mode topo waits like that, too."""

from __future__ import annotations

import numpy as np

from horovod_lab.simulate.parameters import Parameters


class Naps:
    """After each unsuccessful test a sleep, twice as long as the one before.

    Attributes:
        share: of a core that a thread takes that waits for long.
    """

    def __init__(self, p: Parameters):
        lengths, length = [], p.nbcs_sleep_min_seconds
        while length < p.nbcs_sleep_max_seconds:
            lengths.append(length + p.timer_slack_seconds)
            length *= 2
        self.longest = p.nbcs_sleep_max_seconds + p.timer_slack_seconds
        self.share = p.poll_seconds / self.longest
        self._tests = np.cumsum([*lengths, self.longest])  # when it tests, seconds of waiting
        self._lengths = np.array([*lengths, self.longest])

    def noticed(self, waited: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(when the first test comes that is at least `waited` seconds after the first nap began,
        length of the nap before it); 0 for a rank that does not wait."""
        index = np.minimum(np.searchsorted(self._tests, waited), len(self._tests) - 1)
        beyond = np.ceil(np.maximum(waited - self._tests[-1], 0) / self.longest) * self.longest
        waits = waited > 0
        return (np.where(waits, self._tests[index] + beyond, 0.0),
                np.where(waits, self._lengths[index], 0.0))

    def meet(self, arrivals: np.ndarray, hops: int, cost: float) -> float:
        """When all leave a small allreduce; nobody does before the last has come.

        In each hop a rank that naps holds up the one that exchanges with it: in the first hop
        until its next test, in the others half a nap on average, since MPI makes progress only
        while it is called."""
        last = float(arrivals.max())
        if hops == 0:
            return last + cost
        after, nap = self.noticed(last - arrivals)
        held_up = float((arrivals + after).max())
        return max(last, held_up) + (hops - 1) * float(nap.mean()) / 2 + cost
