"""When a round of negotiation begins in mode topo: as in csrc/binding/topo/rounds.cc."""

from __future__ import annotations

import math

FIRST = 1e-3  # seconds after a round that was asked for
LONGEST = 10e-3  # seconds, or
PART_OF_QUIET = 1 / 20  # of the time since that round, if that is longer


class Listening:
    """Within a group, a rank that has a request rings; without a ring a round comes after a
    heartbeat. A ring is not heard in other groups, so with several of them rounds come more often:
    soon after a request, and less and less often while nobody asks. Before the first request it
    counts as if nobody had asked for long."""

    def __init__(self, heartbeat: float, groups: int):
        self.heartbeat, self.alone = heartbeat, groups == 1
        self._next, self._asked = math.inf, -math.inf

    def asked(self, now: float) -> None:
        """A round with a request has ended."""
        self._next, self._asked = FIRST, now

    def wait(self, now: float) -> float:
        """Seconds from `now`, the end of a round, until the next."""
        if self.alone:
            return self.heartbeat
        wait = min(self.heartbeat, self._next)
        self._next = min(2 * self._next, max(LONGEST, PART_OF_QUIET * (now - self._asked)))
        return wait
