"""How a rank waits for the others in a meeting of the negotiation: spinning or with naps."""

from __future__ import annotations

import numpy as np

from horovod_opt.experiments.simulate.parameters import Parameters


class Naps:
    """Mode nbcs: after each unsuccessful test a sleep, twice as long as the one before."""

    def __init__(self, p: Parameters):
        lengths, length = [], p.nbcs_sleep_min_seconds
        while length < p.nbcs_sleep_max_seconds:
            lengths.append(length + p.timer_slack_seconds)
            length *= 2
        self.longest = p.nbcs_sleep_max_seconds + p.timer_slack_seconds
        self._tests = np.cumsum([*lengths, self.longest])  # when it tests, seconds of waiting
        self._lengths = np.array([*lengths, self.longest])

    def noticed(self, waited: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(seconds until the first test at or after `waited` seconds, length of the last nap); 0
        for who does not wait."""
        index = np.minimum(np.searchsorted(self._tests, waited), len(self._tests) - 1)
        beyond = np.ceil(np.maximum(waited - self._tests[-1], 0) / self.longest) * self.longest
        waits = waited > 0
        return (np.where(waits, self._tests[index] + beyond, 0.0),
                np.where(waits, self._lengths[index], 0.0))


def meet(arrivals: np.ndarray, hops: int, cost: float, naps: Naps | None) -> float:
    """When all leave a small allreduce; nobody does before the last has come.

    A rank that naps holds up who exchanges with it in each hop: in the first until its next test,
    in the others half a nap on average, since MPI makes progress only while it is called."""
    last = float(arrivals.max())
    if naps is None or hops == 0:
        return last + cost
    after, nap = naps.noticed(last - arrivals)
    held_up = float((arrivals + after).max())
    return max(last, held_up) + (hops - 1) * float(nap.mean()) / 2 + cost
