"""When messages between nodes are noticed in mode topo, hop by hop.

Over TCP the kernel wakes the thread that waits for one. MPI can only be asked: the thread tests,
and sleeps between tests for a part of the time that it has waited (csrc/binding/network/
mpi_transport.cc)."""

from __future__ import annotations

import numpy as np

from horovod_lab.simulate.nonblocking_allreduce import power_of_two
from horovod_lab.simulate.parameters import Parameters

NAP_PART = 100  # of the time since something has come
SHORTEST_NAP, LONGEST_NAP = 2e-6, 500e-6  # seconds
LONG_PART = 200  # of a very long wait
LONGEST_OF_ALL = 10e-3  # seconds


def _test_times() -> np.ndarray:
    """Seconds of waiting at which MPI is tested, until naps no longer grow."""
    times = [0.0]
    nap = 0.0
    while nap < LONGEST_OF_ALL:
        waited = times[-1]
        nap = max(min(max(waited / NAP_PART, SHORTEST_NAP), LONGEST_NAP),
                  min(waited / LONG_PART, LONGEST_OF_ALL))
        times.append(waited + nap)
    return np.array(times)


TESTS = _test_times()


class Messages:
    """On their way for `hop_inter_seconds`, with all that it takes until an idle machine's thread
    goes on over TCP."""

    def __init__(self, p: Parameters):
        self.p, self.tested = p, not p.tcp_messages
        self.hop = float(self.noticed(np.array([p.hop_inter_seconds]))[0])
        # CPU seconds of a rank for a message that it sends, with the one that it waits for.
        tests = 1 + float(self.tests(np.array([p.hop_inter_seconds]))[0]) if self.tested else 0.0
        self.cpu = (2 + tests) * p.message_cpu_seconds

    def noticed(self, waited: np.ndarray) -> np.ndarray:
        """Seconds after a wait began until who waits knows of what came after `waited` seconds;
        0 if it had come before."""
        waited = np.maximum(waited, 0.0)
        if not self.tested:
            return waited
        index = np.searchsorted(TESTS, waited)
        beyond = np.ceil(np.maximum(waited - TESTS[-1], 0) / LONGEST_OF_ALL) * LONGEST_OF_ALL
        return TESTS[np.minimum(index, len(TESTS) - 1)] + beyond

    def tests(self, waited: np.ndarray) -> np.ndarray:
        """How often who waits so long looks in vain."""
        if not self.tested:
            return np.zeros_like(waited)
        beyond = np.ceil(np.maximum(waited - TESTS[-1], 0) / LONGEST_OF_ALL)
        return np.minimum(np.searchsorted(TESTS, waited), len(TESTS) - 1) + beyond

    def add_up(self, begins: np.ndarray) -> tuple[np.ndarray, float]:
        """(when each member has the sum of a few bytes, CPU seconds of all of them together), from
        when each has begun: recursive doubling, as in csrc/core/network/allreduce_schedules.cc."""
        members = len(begins)
        power = power_of_two(members)
        pairs = members - power
        times = begins.astype(float)
        before, behind = np.arange(0, 2 * pairs, 2), np.arange(1, 2 * pairs, 2)
        cpu = self._receive(times, before, begins[behind])
        active = np.concatenate([before, np.arange(2 * pairs, members)])
        distance = 1
        while distance < power:
            cpu += self._receive(times, active, times[active[np.arange(power) ^ distance]])
            distance *= 2
        return times, cpu + self._receive(times, behind, times[before])

    def _receive(self, times: np.ndarray, receivers: np.ndarray, sends: np.ndarray) -> float:
        """Each of `who` goes on when it knows of the message that was sent to it at `sent`. CPU
        seconds of both ends."""
        waited = np.maximum(sends + self.p.hop_inter_seconds - times[receivers], 0.0)
        times[receivers] += self.noticed(waited)
        return self.p.message_cpu_seconds * float((2 + self.tests(waited)).sum())
