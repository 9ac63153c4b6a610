"""Mode gs, global sleep (6.3.1): before a cycle all ranks sleep equally long, the shortest time
that any of them has left. A rank that was late is then in step again."""

from __future__ import annotations

import numpy as np

from horovod_lab.simulate.modes.off import Off


class GlobalSleep(Off):
    """As off, but in every `gs_interval`-th cycle the ranks agree on the minimum: one more meeting,
    to which they come together from the last one."""

    def sleep(self, local: np.ndarray, now: float) -> tuple[np.ndarray, float]:
        if self.result.cycles % int(self.p.gs_interval):
            return local, now
        shape = self.cores.shape
        leave = self.meet(np.full(shape, now))
        self.cores.advance(now, leave, np.ones(shape, bool))
        self.record("waiting", now, leave)
        return np.full(shape, local.min()), leave
