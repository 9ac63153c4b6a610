"""Ranks that have the same samples, as those among which a model's layers are divided (tensor
parallelism): each group of ranks takes part in the order as one rank does without groups."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from horovod_opt.io.errors import InputError, tell

REMEDY = ("remedy: lists of ranks, equally long, with each rank of the job in one of them, such as "
          "[[0, 1], [2, 3]]")


class Shares(NamedTuple):
    """There are `count` of them; `own` is this rank's, and `of_node` are those of the ranks of its
    node, each once, ascending. Among those of `dealt` their samples are dealt (order/dealing): of a
    node, or of the whole job; where groups are on several nodes that have not all of them in
    common, each is by itself, unless the whole job deals."""

    count: int
    own: int
    of_node: tuple[int, ...]
    dealt: tuple[int, ...]

    @property
    def read(self) -> tuple[int, ...]:
        """Those whose shares of a step, by place, have samples for the ranks of this node."""
        return max(self.of_node, self.dealt, key=len)


class Groups(NamedTuple):
    """`share_of_rank`: the number of each rank's group; None: every rank is one of its own.
    `are_apart`: any two nodes have the same groups, or none in common. `deals_job`: samples of a
    step are dealt to all ranks, not to those of a node."""

    share_of_rank: Optional[tuple[int, ...]] = None
    are_apart: bool = True
    deals_job: bool = False

    @classmethod
    def check(cls, groups: Any, ranks: int) -> Groups:
        """Raises InputError for what are no groups of so many ranks."""
        if groups is None:
            return cls()
        try:
            members = [[_rank(rank) for rank in group] for group in groups]
        except TypeError:
            raise InputError(f"groups={tell(groups)}; {REMEDY}") from None
        if sorted(rank for group in members for rank in group) != list(range(ranks)):
            raise InputError(f"groups={tell(members)} of {ranks} ranks; {REMEDY}")
        if len(set(map(len, members))) > 1:
            raise InputError(f"groups={tell(members)} are of {len(min(members, key=len))} to "
                             f"{len(max(members, key=len))} ranks, so that means over ranks would "
                             f"not be means over samples; {REMEDY}")
        share_of_rank = [0] * ranks
        for share, group in enumerate(sorted(members, key=min)):
            for rank in group:
                share_of_rank[rank] = share
        return cls(tuple(share_of_rank))

    def shares(self, ranks: int, rank: int, node_ranks: Sequence[int]) -> Shares:
        if self.share_of_rank is None:
            return Shares(ranks, rank, tuple(node_ranks),
                          tuple(range(ranks) if self.deals_job else node_ranks))
        own = self.share_of_rank[rank]
        of_node = tuple(sorted({self.share_of_rank[member] for member in node_ranks}))
        count = max(self.share_of_rank) + 1
        if self.deals_job:
            return Shares(count, own, of_node, tuple(range(count)))
        return Shares(count, own, of_node, of_node if self.are_apart else (own,))


def _rank(number: Any) -> int:
    """Neither a text nor a truth value, which Python takes for numbers, too. Raises TypeError."""
    if isinstance(number, (bool, np.bool_)):
        raise TypeError
    return operator.index(number)
