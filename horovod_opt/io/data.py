"""A data set that is open on all ranks of a job, and how far the training has come in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional

from horovod_opt.io import batch as batches
from horovod_opt.io.errors import InputError, ReaderEnded
from horovod_opt.io.job.agreement import require_equal
from horovod_opt.io.job.job_index import take_leaders
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.resume_state import check_state, state_of

if TYPE_CHECKING:
    from horovod_opt.io.batch_counter import BatchCounter
    from horovod_opt.io.index import Index
    from horovod_opt.io.job.communication import Communication
    from horovod_opt.io.job.nodes import Node
    from horovod_opt.io.node_reader.hole_log import HoleLog
    from horovod_opt.io.node_reader.member import Member
    from horovod_opt.io.step_source import StepSource

BAD = ("raise", "skip")
# By default bad="skip" leaves out this part of the samples that a node takes in an epoch at most;
# and always so many.
BAD_LIMIT, FEW_HOLES = 0.01, 10


class Data:
    """What `open` returns: the same on every rank, but for `ranks.rank` and `node`.

    `epoch` and `position` say what comes next: they are advanced by the loaders as they hand out
    batches, never by those that wait to be asked for.
    """

    def __init__(self, index: Index, order: Order, ranks: Communication, node: Node,
                 memory: Optional[int], bad: str, threads: int, is_elastic: bool = False,
                 bad_limit: float = BAD_LIMIT):
        self.index, self.order, self.ranks, self.node = index, order, ranks, node
        self.memory, self.bad, self.threads = memory, bad, threads
        self.bad_limit = bad_limit
        self.epoch = self.position = 0
        self.epoch_end = order.samples  # the position; before that with last="drop"
        self._known_holes: dict[int, set[int]] = {}
        self._hole_logs: list[HoleLog] = []  # of the nodes' readers, by loader
        self.is_resumed = False
        self.counter: Optional[BatchCounter] = None  # who counts batches, where loaders cannot
        self.is_elastic, self.has_met = is_elastic, not is_elastic
        # What the end of a rank becomes for elastic training, instead of ReaderEnded.
        self.interruption: Optional[type[Exception]] = None
        self._is_closed = False
        self._sources: list[StepSource] = []
        self.members: list[Member] = []  # by the number of the loader that reads through it

    def __getstate__(self) -> dict[str, Any]:
        """For workers: they take samples, and say nothing to other ranks."""
        return {**self.__dict__, "_sources": [], "counter": None, "_hole_logs": [],
                "ranks": replace(self.ranks, allgather=None)}

    def __len__(self) -> int:
        """Samples."""
        return self.index.samples

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of a folder of files, by label."""
        return self.index.classes

    @property
    def holes(self) -> dict[int, list[int]]:
        """By epoch: the damaged samples that were left out (`bad="skip"`) by the ranks of this
        node, their workers included, and, until the last gather_holes(), by all others; also those
        of batches that are ready and not yet handed out."""
        merged = {epoch: set(samples) for epoch, samples in self._known_holes.items()}
        for log in self._hole_logs:
            for epoch, samples in log.by_epoch().items():
                merged.setdefault(epoch, set()).update(samples)
        return {epoch: sorted(samples) for epoch, samples in sorted(merged.items())}

    @property
    def most_holes(self) -> int:
        """How many samples of an epoch may be left out on this node."""
        own = len(self) * len(self.node.ranks) / self.ranks.size
        return max(int(self.bad_limit * own), FEW_HOLES)

    def gather_holes(self) -> dict[int, list[int]]:
        """Collective: `holes`, with those of all nodes, which then are in all ranks' states."""
        for text in self.ranks.allgather(json.dumps(list(self.holes.items())).encode()):
            for epoch, samples in json.loads(text):
                self._known_holes.setdefault(epoch, set()).update(samples)
        return self.holes

    def taken(self, batch: Any) -> None:
        """The training has used this batch, and all before it. Loaders say so themselves when they
        hand a batch out. Raises InputError for one that no loader made."""
        info = batches.info_of(batch)
        self.advance(int(info.epoch), int(info.end))

    def advance(self, epoch: int, position: int) -> None:
        """What comes next is `position` of `epoch`; an epoch's end is the start of the next."""
        if position >= self.epoch_end:
            epoch, position = epoch + 1, 0
        self.epoch, self.position, self.is_resumed = epoch, position, False

    def state_dict(self) -> dict[str, Any]:
        """Where the training is, for JSON or a checkpoint; under 1 KiB but for holes."""
        state = state_of(self.order, self.epoch, self.position)
        if holes := self.holes:
            state["holes"] = {str(epoch): samples for epoch, samples in holes.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop over a loader begins where the state was saved. On every rank alike.

        Raises InputError, and changes nothing, if the state is of other data, of other parameters,
        of a newer version, or none.
        """
        place = check_state(state, self.order)
        holes = state.get("holes", {})
        if not isinstance(holes, Mapping):
            raise InputError(f"the state has holes={holes!r}; remedy: it is damaged, use another")
        self.epoch_end = self.order.samples
        self.advance(place.epoch, place.position)
        self._known_holes = {int(epoch): set(samples) for epoch, samples in holes.items()}
        for log in self._hole_logs:
            log.forget()
        self.is_resumed = self.position > 0

    def add(self, source: StepSource, member: Member) -> int:
        """A loader that has begun to read, and this rank's way to its reader; returns a number."""
        self._sources.append(source)
        self.members.append(member)
        known, logs = self.holes, self._hole_logs
        self._hole_logs = [*(log for log in logs if not log.is_closed), member.holes]
        if len(self._hole_logs) <= len(logs):  # of loaders that have ended
            self._known_holes = {epoch: set(samples) for epoch, samples in known.items()}
        return len(self.members) - 1

    def meet(self, ranks: Communication, node: Node) -> None:
        """Collective: these ranks read it from now on. Raises InputError on all of them if they
        have opened different data, or with different arguments."""
        require_equal(ranks, {**state_of(self.order, 0, 0), "memory": self.memory, "bad": self.bad,
                              "bad_limit": self.bad_limit},
                      "call open() with the same arguments on every rank, on the same files")
        self.index = take_leaders(ranks, node, self.index)
        self.ranks, self.node, self.has_met = ranks, node, True

    def part(self) -> None:
        """The ranks are about to change, in an elastic job: its loaders end, and the next ones go
        on here. Needs no other rank."""
        for source in self._sources:
            source.part()
        self._sources, self.members, self.counter = [], [], None
        self.has_met = False
        self.is_resumed = self.position > 0

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Around what waits for other ranks: where training is elastic, it survives their end."""
        try:
            yield
        except ReaderEnded as ended:
            if self.interruption is None or self._is_closed:
                raise
            raise self.interruption(str(ended)) from ended

    def stats(self) -> dict[str, float]:
        """Sums over the loaders. `samples`, `bytes`: that this rank took; `samples_from_storage`:
        of those, what its own node read into memory that its ranks share: the others were in the
        system's page cache. `training_wait_seconds`:
        that its training waited for the next batch, with TensorFlow that whoever asks for one did,
        which `.prefetch()` does in its place; `reader_wait_seconds` in `reader_waits`: that
        its loaders, which run ahead, waited for the node's reader. `node_bytes_read` from storage
        in `node_requests`, `node_chunks`, and `node_most_live_bytes` in memory, and
        `node_cached_bytes` of chunks that were left in the page cache: of the node."""
        total: dict[str, float] = {}
        for source in self._sources:
            for name, value in source.stats().items():
                total[name] = total.get(name, 0) + value
        return total

    def close(self) -> None:
        """Ends all reading; open loaders then raise. Ranks may close at different times."""
        self._is_closed = True
        for source in self._sources:
            source.close()

    def __enter__(self) -> Data:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
