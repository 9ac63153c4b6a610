"""A data set that is open on all ranks of a job, and how far the training has come in it."""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from horovod_opt.io.batch import info_of
from horovod_opt.io.errors import InputError, ReaderEnded, tell
from horovod_opt.io.holes import Holes
from horovod_opt.io.job.agreement import require_equal
from horovod_opt.io.job.groups import Groups, Shares
from horovod_opt.io.job.job_index import take_leaders
from horovod_opt.io.loader_stats import PastStats
from horovod_opt.io.order.choice import Given
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.resume_state import Rest, check_state, state_of
from horovod_opt.io.progress import say

if TYPE_CHECKING:
    from horovod_opt.io.batch_counter import BatchCounter
    from horovod_opt.io.index import Index
    from horovod_opt.io.job.communication import Communication
    from horovod_opt.io.job.nodes import Node
    from horovod_opt.io.kept.job_memory import JobMemory
    from horovod_opt.io.kept.kept_place import KeptPlace
    from horovod_opt.io.node_reader.member import Member
    from horovod_opt.io.node_reader.steps import Pass
    from horovod_opt.io.step_source import StepSource
    from horovod_opt.io.unpacked.unpacked_place import UnpackedPlace
    from horovod_opt.io.unpacked.unpacked_store import UnpackedStore

# "skip-all": also what decode cannot decode.
BAD = ("raise", "skip", "skip-all")
# To whose ranks samples of a step are dealt.
NODE, JOB = DEALS = "node", "job"
# Windows of chunks are permuted, or all samples.
WINDOW, ORDERED = ORDERS = "window", "ordered"
# By default these leave out this part of the samples that a node takes in an epoch at most;
# and always so many.
BAD_LIMIT, FEW_HOLES = 0.01, 10


class Told(NamedTuple):
    """Which steps of a pass over an epoch the training has said that it has taken: the last one,
    and the most from one to the next."""

    epoch: int = -1
    step: int = -1
    gap: int = 0

    def next(self, epoch: int, step: int) -> Told:
        if epoch == self.epoch and step > self.step:
            before = self
        else:  # of a pass over several epochs, or another one
            before = Told(epoch, gap=self.gap if epoch == self.epoch + 1 else 0)
        return Told(epoch, step, max(before.gap, step - before.step))


class LastPass(NamedTuple):
    """The pass that was begun last: by whichever loader. `handed_out()` says how many of its
    batches somebody has, who may run ahead of the training. `loads`: of states, before it."""

    batches: Pass
    loads: int
    handed_out: Callable[[], int]

    def is_taken_from(self, data: Data) -> bool:
        """Whether the training, which comes for the next pass, has taken all of it: it was handed
        out, and nothing or as much was said of it as somebody says who speaks after every k-th
        batch. One that was left early had less."""
        if data.loads != self.loads or self.handed_out() < max(self.batches.steps, 1):
            return False
        if (data.epoch, data.position) == self.batches.start:
            return True
        return self.untold(data) < data.told.gap

    def untold(self, data: Data) -> int:
        """How many batches of its last epoch nobody has said to be taken, of a training that has
        come to that epoch; else all that there may be."""
        epoch, step = self.batches.last
        return step - data.told.step if data.epoch == epoch == data.told.epoch else sys.maxsize


class Data:
    """What `open` returns: the same on every rank, but for `ranks.rank` and `node`.

    `epoch` and `position` say what comes next: they are advanced by the loaders as they hand out
    batches, never by those that wait to be asked for.
    """

    def __init__(self, index: Index, order: Order, ranks: Communication, node: Node,
                 memory: Optional[int], bad: str, threads: int, is_elastic: bool = False,
                 bad_limit: float = BAD_LIMIT, given: Given = Given(),
                 choose: Optional[Callable[[Given], Order]] = None, groups: Groups = Groups(),
                 kept_place: Optional[KeptPlace] = None,
                 unpacked_place: Optional[UnpackedPlace] = None, reads_parcels: bool = False):
        self.index, self.order, self.ranks, self.node = index, order, ranks, node
        self.rest: Optional[Rest] = None  # of an epoch that was begun by rules of before
        self._given, self._choose, self._groups = given, choose, groups
        self.memory, self.bad, self.threads = memory, bad, threads
        self.bad_limit = bad_limit
        self.kept_place = kept_place
        self.reads_parcels = reads_parcels  # not chunks, as all samples are permuted together
        self.unpacked_place = unpacked_place
        # Of the node's first rank.
        self.job_memory: Optional[JobMemory] = None
        self.unpacked: Optional[UnpackedStore] = None
        self.epoch = self.position = 0
        # The positions of epochs that end before their last sample, with last="drop".
        self.epoch_ends: dict[int, int] = {}
        self.known_holes = Holes(may_be=bad != "raise")
        self.is_resumed = False
        self.is_read = False  # a loader has begun to read an epoch: others are read again
        self.loads = 0  # how often a state was loaded
        self.told = Told()
        self.last_pass: Optional[LastPass] = None  # where loaders cannot count
        self._has_said_untold = False
        self.counter: Optional[BatchCounter] = None  # who counts batches, where loaders cannot
        self.is_elastic, self.has_met = is_elastic, not is_elastic
        # What the end of a rank becomes for elastic training, instead of ReaderEnded.
        self.interruption: Optional[type[Exception]] = None
        self._is_closed = False
        # A loader that nobody has any more ends, so it is not kept.
        self._sources: weakref.WeakSet[StepSource] = weakref.WeakSet()
        # By the number of the loader that reads through it.
        self.members: MutableMapping[int, Member] = weakref.WeakValueDictionary()
        self._loaders = 0
        self.past = PastStats()

    def __getstate__(self) -> dict[str, Any]:
        """For workers: they take samples, and say nothing to other ranks."""
        silent: dict[str, Any] = {"allgather": None, "named": None}
        return {**self.__dict__, "_sources": None, "counter": None, "past": None, "last_pass": None,
                "members": dict(self.members), "_choose": None, "known_holes": None,
                "job_memory": None, "unpacked": None,
                "ranks": replace(self.ranks, **silent)}

    def __len__(self) -> int:
        """Samples."""
        return self.index.samples

    @property
    def shares(self) -> Shares:
        """Who takes part in the order: ranks, or groups of them."""
        return self._groups.shares(self.ranks.size, self.ranks.rank, self.node.ranks)

    @property
    def deal(self) -> str:
        """To whose ranks the samples of a step are dealt: those of a "node", or of the "job"."""
        return JOB if self._groups.deals_job else NODE

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of a folder of files, by label."""
        return self.index.classes

    @property
    def holes(self) -> dict[int, list[int]]:
        """By epoch: the samples that were left out, as damaged (`bad="skip"`) or by decode, by the
        ranks of this node, their workers included, and, until the last gather_holes(), by all
        others; also those of batches that are ready and not yet handed out."""
        return self.known_holes.by_epoch()

    @property
    def most_holes(self) -> int:
        """How many samples of an epoch may be left out on this node."""
        own = len(self) * len(self.shares.of_node) / self.shares.count
        return max(int(self.bad_limit * own), FEW_HOLES)

    def gather_holes(self) -> dict[int, list[int]]:
        """Collective: `holes`, with those of all nodes, which then are in all ranks' states."""
        ranks = self.ranks.doing("calls gather_holes()")
        for text in ranks.allgather(json.dumps(list(self.holes.items())).encode()):
            self.known_holes.add(json.loads(text))
        self.known_holes.settle()  # all ranks are here
        return self.holes

    def taken(self, info: Any) -> None:
        """The training has used the batch with this info, and all before it; after each or after
        every k-th one. Loaders of PyTorch say so themselves when they hand a batch out. Raises
        InputError for what is no info."""
        info = info_of(info)
        self.told = self.told.next(int(info.epoch), int(info.step))
        self.advance(int(info.epoch), int(info.end))

    def end_last_pass(self) -> None:
        """The training comes for the next pass: where it has taken all of the last one, what comes
        next is behind that. Nothing tells a loop that was left in its last batches from one that
        came to its end, where TensorFlow has fetched these batches and nobody speaks of each."""
        last = self.last_pass
        if last is None or not last.is_taken_from(self):
            return
        untold = last.untold(self)
        if 0 < untold < self.told.gap and not self._has_said_untold and self.ranks.rank == 0:
            self._has_said_untold = True
            say(f"data.taken() has not heard of the last {untold} batches of epoch "
                f"{last.batches.last[0]} in the loop before, which count as used, as at a loop's "
                "end; if that one was left within them, they are lost. Remedy: "
                "data.load_state_dict(data.state_dict()) behind a loop that is left, or "
                "data.taken(info) of the last batch that was used, also at a loop's end")
        self.advance(*last.batches.place_after(last.batches.steps))

    def advance(self, epoch: int, position: int) -> None:
        """What comes next is `position` of `epoch`; an epoch's end is the start of the next."""
        if position >= self.epoch_ends.get(epoch, self.order.samples):
            epoch, position = epoch + 1, 0
        if self.rest is not None and epoch > self.rest.epoch:
            self.rest = None
        self.epoch, self.position, self.is_resumed = epoch, position, False

    def state_dict(self) -> dict[str, Any]:
        """Where the training is, for JSON or a checkpoint; under 1 KiB but for holes."""
        state = state_of(self.order, self.epoch, self.position, self.rest)
        if holes := self.holes:
            state["holes"] = {str(epoch): samples for epoch, samples in holes.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop over a loader begins where the state was saved. On every rank alike.
        Window, shards and chunk size that were not given to open() become those of the state.

        Raises InputError, and changes nothing, if the state is of other data, of other parameters,
        of a newer version, or none; or if these become others and a loader has begun to read.
        """
        self.take_state(state)
        self.renew_loaders()

    def take_state(self, state: Mapping[str, Any]) -> None:
        """The same, but for loaders that have to be made ready for another order: asks no rank."""
        place = check_state(state, self.order, self._given, self._choose)
        if self.reads_parcels and not place.order.has_whole_shards:
            raise InputError(f"the state is of windows of {place.order.window} chunks, and data "
                             "with order='ordered' has one of all; remedy: order='window'")
        holes = state.get("holes", {})
        if not isinstance(holes, Mapping):
            raise InputError(f"the state has holes={tell(holes)}; remedy: it is damaged, use "
                             "another")
        self._check_sources(place.order, place.rest)
        self.order, self.rest = place.order, place.rest
        self.epoch_ends = {}
        self.advance(place.epoch, place.position)
        self.known_holes.replace({int(epoch): samples for epoch, samples in holes.items()})
        self.is_resumed = True
        self.loads += 1

    def renew_loaders(self) -> None:
        """Collective where a state has brought another order than loaders were made for."""
        for source in sorted(self._sources, key=lambda source: source.number):
            if not source.is_closed and not source.can_read(self.order, self.rest):
                source.renew()
                self.members[source.number] = source.member

    def _check_sources(self, order: Order, rest: Optional[Rest]) -> None:
        """Raises InputError if a loader has begun to read and cannot go on with these."""
        if any(source.has_begun and not source.is_closed and not source.can_read(order, rest)
               for source in list(self._sources)):
            raise InputError("the state has another window, shards or chunk size than what loaders "
                             "of this data set have begun to read; remedy: load the state before "
                             "the first loop")

    def add(self, source: StepSource, member: Member) -> int:
        """A loader that has begun to read, and this rank's way to its reader; returns a number."""
        self._sources.add(source)
        self._loaders += 1
        self.members[self._loaders - 1] = member
        return self._loaders - 1

    def meet(self, ranks: Communication, node: Node) -> None:
        """Collective: these ranks read it from now on. Raises InputError on all of them if they
        have opened different data, or with different arguments."""
        rest = None if self.rest is None else str(self.rest)
        require_equal(ranks, {**state_of(self.order, 0, 0), "rest": rest, "memory": self.memory,
                              "bad": self.bad, "bad_limit": self.bad_limit,
                              "deal": self.deal, "reads parcels": self.reads_parcels,
                              "cache": self.kept_place and self.kept_place.bytes,
                              "cache_in": self.kept_place and self.kept_place.folder},
                      "call open() with the same arguments on every rank, on the same files")
        self.index = take_leaders(ranks, node, self.index)
        self.ranks, self.node, self.has_met = ranks, node, True

    def part(self) -> None:
        """The ranks are about to change, in an elastic job: its loaders end, and the next ones go
        on here. Needs no other rank."""
        for source in list(self._sources):
            source.part()
        self.counter, self.has_met = None, False
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
        `node_cached_bytes` of chunks that were left in the page cache, and `node_again_bytes` that
        were read from storage in another epoch than the first: of the node. With `cache=`, also of
        the node: `kept_bytes` that it keeps now, `peer_bytes` that came from other nodes in
        `peer_requests`, `served_bytes` that went to them, and `fallback_bytes` that came from
        storage though some node was to keep them."""
        total = self.past.sums()
        for source in list(self._sources):
            if source.is_closed:
                continue
            for name, value in source.stats.now().items():
                total[name] = total.get(name, 0) + value
        if self.job_memory is not None:
            for name, value in self.job_memory.stats().items():
                total[name] = total.get(name, 0) + value
        return total

    def close(self) -> None:
        """Ends all reading; open loaders then raise. Ranks may close at different times.

        What nobody has any more ends by itself, its workers, threads and memory with it; this is
        for an end at a known moment, as is `with hio.open(...) as data:`."""
        self._is_closed = True
        for source in list(self._sources):
            source.close()
        if self.job_memory is not None:
            self.job_memory.close()
        self.unpacked = None  # it goes when no reader has it
        self.known_holes.settle()

    def __enter__(self) -> Data:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
