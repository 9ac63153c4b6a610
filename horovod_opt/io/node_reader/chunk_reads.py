"""What a node reads of epochs chunk by chunk, and where its ranks find their samples in that."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from horovod_opt.io.job.groups import Shares
from horovod_opt.io.node_reader.load_queue import LoadQueue
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.steps import Epoch, Located
from horovod_opt.io.order.schedule import (
    PIECE,
    Loads,
    next_piece,
    schedule_in_pieces,
    take_steps,
)


class ChunkReads:
    """Chunks are in the node cache as long as steps need them."""

    def __init__(self, member: Member, shares: Shares):
        self._member, self._shares = member, shares
        self._queue = LoadQueue(member)

    def pieces(self, epoch: Epoch) -> Iterator[Loads]:
        """For the node's reader."""
        return self._pieces(epoch, with_masks=True)

    def add(self, epoch: Epoch) -> None:
        """The ranks of the node take it next."""
        self._queue.add(epoch.load, self._pieces(epoch))

    def forget(self) -> None:
        """What was added is not needed any more."""
        self._queue.forget()

    def locate(self, epoch: Epoch, begin: int, behind: int, most: int) -> Located:
        """What this rank takes in steps of one size from `begin` on, before `behind`: about `most`
        samples."""
        batches, shares = epoch.batches, self._shares
        end = min(next_piece(batches, begin, min(most * batches.ranks, PIECE)), behind)
        take = take_steps(epoch.order, batches, epoch.epoch, begin, end, shares.dealt, shares.own)
        self._queue.feed_until(epoch.base + end - 1)
        steps = epoch.base + np.repeat(np.arange(begin, end), batches.size(begin, shares.own))
        return Located(end, take, *self._member.locate(steps, take.samples))

    def _pieces(self, epoch: Epoch, with_masks: bool = False) -> Iterator[Loads]:
        shares = self._shares
        for loads in schedule_in_pieces(epoch.order, epoch.batches, epoch.epoch, shares.of_node,
                                        with_masks, shares.dealt):
            yield loads._replace(first=loads.first + epoch.base, last=loads.last + epoch.base)
