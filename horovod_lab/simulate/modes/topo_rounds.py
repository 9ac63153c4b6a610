"""When a round of negotiation begins in mode topo: as in csrc/binding/topo/rounds.cc."""

from __future__ import annotations

import math

FIRST = 1e-3  # seconds after a round that was asked for
LONGEST = 10e-3  # seconds, or
PART_OF_QUIET = 1 / 20  # of the time since that round, if that is longer
HEARTBEATS_BETWEEN_NODES = 10  # where messages ring


class Listening:
    """Within a group, a rank that has a request rings; without a ring a round comes after a
    heartbeat. Over TCP (`rings`) other groups hear of it, too, and heartbeats are rare. MPI does
    not ring: so rounds come soon after a request, and less and less often while nobody asks. Before
    the first request it counts as if nobody had asked for long."""

    def __init__(self, heartbeat: float, groups: int, rings: bool):
        self.hears = groups == 1 or rings  # of a request, as soon as there is one
        self._heartbeat = heartbeat * (HEARTBEATS_BETWEEN_NODES if groups > 1 and rings else 1)
        self._next, self._asked = math.inf, -math.inf

    def asked(self, now: float) -> None:
        """A round with a request has ended."""
        self._next, self._asked = FIRST, now

    def wait(self, now: float) -> float:
        """Seconds from `now`, the end of a round, until the next."""
        if self.hears:
            return self._heartbeat
        wait = min(self._heartbeat, self._next)
        self._next = min(2 * self._next, max(LONGEST, PART_OF_QUIET * (now - self._asked)))
        return wait
