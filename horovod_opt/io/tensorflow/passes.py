"""One pass of the training over the data after the other, whoever takes the bytes."""

from __future__ import annotations

from typing import Optional

from horovod_opt.io.data import Data
from horovod_opt.io.reading import Epoch, Reading


class Passes:
    """Who runs ahead of the training must not move its position. So an epoch ends here when the
    training has said so, to Resume or data.taken(); and if it says nothing at all, when it comes
    for the next one."""

    def __init__(self, data: Data, reading: Reading):
        self.data, self.reading = data, reading
        self._begun: Optional[tuple[int, int]] = None  # epoch and position of the last pass
        self._is_handed_out = False  # its last batch

    def begin(self) -> Epoch:
        """What is left of the epoch that comes next."""
        data = self.data
        says_nothing = (data.counter is None and not data.is_resumed
                        and (data.epoch, data.position) == self._begun)
        if says_nothing and self._is_handed_out:
            data.advance(data.epoch + 1, 0)
        epoch = self.reading.begin()
        self._begun, self._is_handed_out = (data.epoch, data.position), False
        if data.counter is not None:
            data.counter.begun(epoch)
        return epoch

    def handed_out(self) -> None:
        """All batches of the pass."""
        self._is_handed_out = True
        self.reading.publish()
