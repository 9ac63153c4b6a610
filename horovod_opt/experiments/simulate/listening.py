"""When a rank in mode topo looks whether others have a request for the negotiation."""

from __future__ import annotations

FIRST = 1e-3  # seconds after a round that was asked for
LONGEST = 10e-3  # seconds, or
PART_OF_QUIET = 1 / 20  # of the time since that round, if that is longer


class Listening:
    """Within a group who has a request rings; without a ring a round comes after a heartbeat. A
    ring is not heard in other groups, so between several a round comes earlier, but less and less
    often while nobody asks (docs/topo.md). Nobody does in a simulation: a plan has become active
    when it begins, in a round that was asked for, and all that is reduced is planned."""

    def __init__(self, heartbeat: float, groups: int):
        self.heartbeat, self.alone = heartbeat, groups == 1
        self._next = FIRST

    def wait(self, quiet: float) -> float:
        """Seconds until the next round, `quiet` seconds after the last that was asked for."""
        if self.alone:
            return self.heartbeat
        wait = min(self.heartbeat, self._next)
        self._next = min(2 * self._next, max(LONGEST, PART_OF_QUIET * quiet))
        return wait
