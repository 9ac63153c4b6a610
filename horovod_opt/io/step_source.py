"""What a loader reads: the steps of one epoch after the other, through the node's reader."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Optional

import numpy as np

from horovod_opt.io import memory_limit
from horovod_opt.io.batch import BatchInfo
from horovod_opt.io.data import Data, LastPass, Told
from horovod_opt.io.errors import DataError, InputError, ReaderEnded
from horovod_opt.io.holes import Holes
from horovod_opt.io.index.unpacked_index import UnpackedIndex
from horovod_opt.io.job import nodes
from horovod_opt.io.job.agreement import require_equal, run_together
from horovod_opt.io.job.communication import find, next_channel, use_channel
from horovod_opt.io.job.room import PART
from horovod_opt.io.kept.memory_meeting import MemoryMeeting, meet
from horovod_opt.io.loader_stats import LoaderStats
from horovod_opt.io.node_reader import lifetime
from horovod_opt.io.node_reader.chunk_reads import ChunkReads
from horovod_opt.io.node_reader.layout import chunk_bytes
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.node_cache import SAME_PLACE
from horovod_opt.io.node_reader.parcel_reads import ParcelReads, ParcelRoom, describe_small_reads
from horovod_opt.io.node_reader.reader_process import Reader
from horovod_opt.io.node_reader.steps import Epoch, Part, Pass, Steps, StepSamples
from horovod_opt.io.node_reads import chunks_for_node
from horovod_opt.io.order.batches import Batches, at_least_1
from horovod_opt.io.order.choice import with_ahead
from horovod_opt.io.order.memory import enough_for
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.resume_state import Rest
from horovod_opt.io.progress import say
from horovod_opt.io.unpacked.unpacked_store import UnpackedStore

# Samples of a rank whose order is computed together: of many, each costs little.
TOGETHER = 1 << 13
# Loads of an epoch have numbers of their own. More than it can have; the cache needs a power of 2.
LOADS = 1 << 40
# Of a loop, all of which begin with it, 1.6 ms each.
MOST_EPOCHS = 1000


class StepSource:
    """Collective: every rank makes one with the same arguments, and goes through the same passes.

    A pass is an epoch of the data, or what is left of it. With `epoch_batches` it is so many
    batches, from where the training is, over the ends of the data's epochs; behind a state that was
    loaded, as many as are left of those that it was within, counted from the first epoch on.

    It ends with close(), after so many passes, `epochs` (None: never), and when nobody has it any
    more: nothing that reads for it refers to it.

    Raises InputError if the arguments cannot be used, differ, or `memory` is too small for a node.
    """

    def __init__(self, data: Data, batch_size: Optional[int], global_batch_size: Optional[int],
                 last: str, epochs: Optional[int] = None, epoch_batches: Optional[int] = None):
        if not data.has_met:
            ranks = find()
            data.meet(ranks, nodes.find(ranks))
        self.data, self._epochs, self.epoch_batches = data, epochs, epoch_batches
        self._sizes = {"batch_size": batch_size, "global_batch_size": global_batch_size,
                       "last": last}
        ranks = self._ranks = data.ranks.doing(f"makes a loader of {data.index.root}")
        whole = run_together(ranks, self._check)
        self.whole, self.steps = whole, epoch_batches or whole.steps
        self.global_batch_size = whole.global_batch_size
        require_equal(ranks, {**self._sizes, "epochs": epochs, "epoch_batches": epoch_batches,
                              "epoch": data.epoch, "position": data.position},
                      "make the same loader, from the same state, on every rank")
        if data.bad != "raise":  # else there are none
            data.gather_holes()
        channels = [int(row) for row in ranks.allgather(str(next_channel()).encode())]
        # A pass may begin in another thread, as TensorFlow's: beside one of another loader.
        self._meeting = data.ranks.channel(str(use_channel(max(channels)))).doing(
            f"begins a loop over a loader of {data.index.root}")
        self._when_closed: list[weakref.WeakMethod] = []
        self._next_step = 0
        self._start()
        self.number = data.add(self, self._member)
        self._ahead: Optional[Epoch] = None
        self._latest: Optional[Pass] = None
        self._epochs_fed = self._passes_begun = self._passes_over = 0
        self._lock = threading.Lock()
        self._has_parted = False

    def renew(self) -> None:
        """Collective: makes it ready to read by the order that the data has now.

        Raises InputError on all ranks if only some do, while others begin a pass.
        """
        data = self.data
        self._meet(f"epoch {data.epoch}, position {data.position} of another order")
        self._end.now()
        self._start()

    def _start(self) -> None:
        data, whole = self.data, self._batches(0)
        self._order = data.order if data.kept_place else chunks_for_node(
            data.order, whole, data.shares.of_node, int(data.index.size.sum()) / len(data))
        self._rest, self._of = data.rest and data.rest.order, data.order
        self._reader: Optional[Reader] = None
        try:
            meeting = None if data.kept_place is None else meet(data, self._order)
            run_together(self._ranks, lambda: self._start_reader(whole, meeting))
            address = "" if self._reader is None else self._reader.address
            addresses = [text.decode() for text in self._ranks.allgather(address.encode())]
            self._member = run_together(self._ranks, lambda: Member(
                data.index, self._order.chunk_samples, addresses[data.node.ranks[0]],
                data.node.local_rank, data.node.ranks))
        except BaseException:  # of another rank, perhaps: what has begun here is of no use
            if self._reader is not None:
                self._reader.stop()
            raise
        self._reads = (ParcelReads(data.index, data.shares) if data.reads_parcels
                       else ChunkReads(self._member, data.shares))
        self.stats = LoaderStats(self._member, len(data.index.parts), data.node.is_reader,
                                 data.past, data.job_memory)
        data.known_holes.watch(self._member.holes)
        self._end = lifetime.end_when_dropped(
            self, _end, self.stats, data.known_holes, self._member, self._reader)

    @property
    def has_begun(self) -> bool:
        """Whether a loop has."""
        return self._next_step > 0

    def can_read(self, order: Order, rest: Optional[Rest]) -> bool:
        """Whether it has been made ready to read by these."""
        return order == self._of and (rest is None or rest.order == self._rest)

    def _order_of(self, epoch: int) -> Order:
        rest = self.data.rest
        return rest.order if rest is not None and rest.epoch == epoch else self._order

    def _batches(self, position: int) -> Batches:
        return Batches(self.data.order, self.data.shares.count, start=position, **self._sizes)

    def _check(self) -> Batches:
        whole = self._batches(0)
        if self._epochs is not None:
            at_least_1("epochs", self._epochs)
        if self.epoch_batches is not None:
            at_least_1("epoch_batches", self.epoch_batches)
            if self.epoch_batches > MOST_EPOCHS * whole.steps:
                raise InputError(
                    f"epoch_batches={self.epoch_batches} with epochs of {whole.steps} batches: a "
                    f"loop goes over at most {MOST_EPOCHS} of them; remedy: at most "
                    f"{MOST_EPOCHS * whole.steps}, and as many loops as are wanted")
        return whole

    def batches_until_here(self) -> int:
        """Of all epochs until the data's position, as these ranks and batches have them."""
        data, within = self.data, 0
        if data.position:
            within = int(self.whole.step_of(np.array([min(data.position, self.whole.end - 1)]))[0])
        return data.epoch * self.whole.steps + within

    def _start_reader(self, batches: Batches, meeting: Optional[MemoryMeeting]) -> None:
        data, order = self.data, self._order
        if not data.node.is_reader:
            data.unpacked = None  # of ranks of before
            return
        taken = data.unpacked_place.memory if data.unpacked_place else 0
        if data.index.unpacked is not None and data.unpacked is None:
            data.unpacked = UnpackedStore(data.index, data.unpacked_place, data.threads)
        is_kept = None
        if meeting is None and data.reads_parcels:
            sizes = np.zeros(0, np.int64)  # nobody reads chunks
        elif meeting is None:
            index = data.index if data.unpacked is None else UnpackedIndex(
                data.index, data.unpacked.file)
            sizes = chunk_bytes(index, order.chunk_samples)
        else:
            sizes = data.job_memory.chunk_bytes
            is_kept = meeting.settle(data.job_memory, data.epoch)
            if data.reads_parcels:
                data.job_memory.want_all()
        cuts = batches, self._batches(data.position)
        if data.reads_parcels and data.ranks.rank == 0 and (what := describe_small_reads(
                data.index, order.chunk_samples, is_kept)):
            say(what)
        parcels = ParcelRoom.of(data.index, cuts, data.shares) if data.reads_parcels else None
        memory = None if data.memory is None else data.memory - taken
        need = parcels.at_once if parcels else max(enough_for(
            known, cuts, data.shares.read, sizes,
            range(data.epoch, data.epoch + self._epochs)
            if self._epochs and not self.epoch_batches else None, memory)
            for known in (order, self._rest or order))
        most = memory_limit.limit()
        if most is not None:
            most = max(most - _beside(data), 0)
        if memory is None:
            memory = with_ahead(need)
            if most is not None:
                memory = max(need, min(memory, most // PART))
        origin = "memory=" if data.memory is not None else "by default memory="
        if memory < need:
            raise InputError(
                f"memory={memory_limit.show(data.memory)}"
                + (f", less {memory_limit.show(taken)} for unpacked files," if taken else "")
                + f" is less than the {memory_limit.show(need)} that "
                + ("what its ranks take in few steps may need at once; remedy: more memory, or "
                   "smaller batches" if parcels else
                   f"shards={order.shards} and window={order.window} need at once; "
                   "remedy: more memory, fewer shards, or smaller windows or chunks"))
        if most is not None and memory > most:
            raise InputError(
                f"{origin}{memory_limit.show(memory)}, but this process may use "
                f"{memory_limit.show(most)} (control group or machine{_tell_beside(data)}); "
                f"remedy: a smaller {'cache or ' if data.kept_place else ''}window, fewer shards, "
                "or a higher limit")
        self._reader = Reader(data.index, order.chunk_samples, memory, len(data.node.ranks),
                              data.threads, chunk_bytes=sizes, job_memory=data.job_memory,
                              unpacked=data.unpacked, parcels=parcels)

    def begin(self, runs_ahead_of: Optional[Pass] = None, meets: bool = True) -> Pass:
        """The pass that comes next. An epoch that was left early begins anew; one of
        `epoch_batches` goes on where the training is. Collective, with `meets`: the ranks compare
        their places, each time; they say nothing to each other in between.

        `runs_ahead_of`: the training is still in that one, and what comes next is the one after it;
        the place in the data stays.

        Raises InputError on all ranks if they are not at the same place.
        """
        data, goes_on = self.data, self.epoch_batches is not None
        self._check_open()
        if runs_ahead_of is not None:
            epoch, position = runs_ahead_of.place_after(runs_ahead_of.steps)
        else:
            data.end_last_pass()
            epoch, position = data.epoch, data.position if data.is_resumed or goes_on else 0
        if not self._batches(position).steps:  # last="drop": too few are left
            epoch, position = epoch + 1, 0
        if meets:
            self._meet(f"epoch {epoch}, position {position}")
        is_resumed = runs_ahead_of is None and data.is_resumed
        with self._lock:
            steps = self.epoch_batches
            if goes_on and is_resumed:
                steps -= self.batches_until_here() % steps
            first = self._go_on(epoch, position, meets)
            self._passes_begun += 1
            now = Pass((epoch, position), self._parts(first, steps), steps < self.epoch_batches
                       if goes_on else position > 0)
            if runs_ahead_of is None:
                data.last_pass = None
                data.told = Told(first.epoch.epoch, first.begin - 1)
                data.epoch_ends = {part.epoch.epoch: part.epoch.batches.end for part in now.parts}
                data.advance(epoch, position)
                # Until a batch of it is taken.
                data.is_resumed = is_resumed or position > 0 and not goes_on
                self._member.skip_to(now.base)
            self._latest = now
            return now

    def _go_on(self, epoch: int, position: int, forgets: bool) -> Part:
        """The epoch from this place on, which is read already where the passes before lead to
        it."""
        latest, ahead = self._latest, self._ahead
        order = self._order_of(epoch)
        if latest is not None and latest.parts and (
                latest.place_after(latest.steps) == (epoch, position)):
            current, _, end = latest.parts[-1]
            if current.epoch == epoch and current.order == order:
                return Part(current, end, current.batches.steps)
        self._ahead = None
        if ahead is None or (ahead.epoch, ahead.batches.start, ahead.order) != (
                epoch, position, order):
            if forgets:
                self._forget()
            ahead = self._feed(epoch, position)
        return Part(ahead, 0, ahead.batches.steps)

    def _parts(self, first: Part, steps: Optional[int]) -> tuple[Part, ...]:
        """The pass of so many steps (None: to the epoch's end), of which the reader then has all,
        and the epoch behind it unless it is the last one."""
        parts, left = [first], steps
        while left is not None and left > parts[-1].end - parts[-1].begin:
            left -= parts[-1].end - parts[-1].begin
            epoch, self._ahead = self._ahead or self._feed(parts[-1].epoch.epoch + 1, 0), None
            parts.append(Part(epoch, 0, epoch.batches.steps))
        if left is not None:
            parts[-1] = parts[-1]._replace(end=parts[-1].begin + left)
        if self._ahead is None and (self._epochs is None or self._passes_begun < self._epochs):
            self._ahead = self._feed(parts[-1].epoch.epoch + 1, 0)
        return tuple(parts)

    def _meet(self, place: str) -> None:
        try:
            require_equal(self._meeting, {"the place in the data": place}, SAME_PLACE)
        except DataError:
            raise
        except Exception as error:
            if type(error).__name__ == "HorovodInternalError":  # elastic training survives it
                raise
            raise ReaderEnded(f"the ranks cannot meet as a loop begins: {type(error).__name__}: "
                              f"{error}; remedy: see the error of the rank that has ended"
                              ) from error

    def is_last_pass(self, begun: Pass, handed_out: Callable[[], int]) -> None:
        """Of a pass that was begun: whoever takes it cannot tell the training's place, so the next
        pass, of whichever loader, asks how many batches were handed out. `handed_out` must not
        refer to this one."""
        self.data.last_pass = LastPass(begun, self.data.loads, handed_out)

    def end_pass(self, is_taken: bool = True) -> None:
        """The training, and whatever takes samples for it, is through with a pass: after the last
        of `epochs` it ends. `is_taken`: nothing of it is still being taken."""
        self._passes_over += 1
        if self._epochs is not None and self._passes_over >= self._epochs and is_taken:
            self.close()

    def _check_open(self) -> None:
        if self._has_parted:
            raise InputError("this loader was made for other ranks, before a reset; remedy: make "
                             "loaders in the function that hvd.elastic.run calls")
        if self.is_closed and self._epochs is not None and self._passes_over >= self._epochs:
            raise InputError(f"this loader was made for epochs={self._epochs}, and they are over; "
                             "remedy: give more, or leave epochs= out")
        if self.is_closed:
            raise ReaderEnded("this loader is closed; remedy: make another one, of data that is "
                              "open")

    def _forget(self) -> None:
        """What was left early. No rank takes anything of it any more: all have begun what comes
        now. So its loads need not be gone through."""
        self._reads.forget()
        if self._reader is not None:
            self._reader.forget()

    def _feed(self, epoch: int, position: int) -> Epoch:
        batches = self._batches(position)
        coming = Epoch(epoch, batches, self._next_step, self._order_of(epoch),
                       LOADS * self._epochs_fed)
        self._next_step += batches.steps
        self._epochs_fed += 1
        if self._reader is not None:
            self._reader.feed_pieces(self._reads.pieces(coming), coming.load, self.data.is_read)
        self.data.is_read = True
        self._reads.add(coming)
        return coming

    def samples(self, begun: Pass) -> Iterator[StepSamples]:
        """Of each step, in order."""
        for steps in self.step_groups(begun):
            yield from steps.split()

    def step_groups(self, begun: Pass) -> Iterator[Steps]:
        """The same, of many steps at a time."""
        for part in begun.parts:
            yield from self._step_groups(*part)

    def _step_groups(self, epoch: Epoch, begin: int, behind: int) -> Iterator[Steps]:
        batches, rank = epoch.batches, self.data.shares.own
        while begin < behind:
            end, take, loads, places, chunks = self._reads.locate(epoch, begin, behind, TOGETHER)
            size, first = batches.size(begin, rank), batches.bounds(begin)[0]
            count = batches.bounds(begin)[1] - first  # of the global batch; equal in these steps
            capacity, weight = batches.capacity(begin, rank), batches.weight(begin, rank)
            infos = [BatchInfo(epoch.epoch, begin + i, first + i * count, first + (i + 1) * count,
                               size, capacity, weight) for i in range(end - begin)]
            yield Steps(epoch.base + begin, np.arange(1, end - begin + 1) * size, take.positions,
                        take.samples, loads, places, chunks, infos)
            begin = end

    @property
    def member(self) -> Member:
        """Of this rank; may be sent to its workers."""
        return self._member

    def part(self) -> None:
        """Of ranks that are no longer those of the job: none of them takes anything more, and one
        that has died will never leave."""
        self._has_parted = True
        self.close()
        if self._reader is not None:
            self._reader.stop()

    @property
    def is_closed(self) -> bool:
        return not self._end.alive

    def when_closed(self, method: Callable[[], None]) -> None:
        """Calls this method of an object, if it is still there then, as it is closed."""
        self._when_closed.append(weakref.WeakMethod(method))

    def close(self) -> None:
        """This rank takes nothing more; the node's reader ends when that is so of all its ranks."""
        if self.is_closed:
            return
        for weak in self._when_closed:
            method = weak()
            if method is not None:
                method()
        self._end.now()


def _beside(data: Data) -> int:
    """Bytes of the node's memory that are taken already."""
    return sum(place.memory for place in (data.kept_place, data.unpacked_place) if place)


def _tell_beside(data: Data) -> str:
    used = _beside(data)
    if not used:
        return ""
    what = "cache=" if data.kept_place else "unpacked files of "
    return f", less {what}{memory_limit.show(used)}"


def _end(stats: LoaderStats, holes: Holes, member: Member, reader: Optional[Reader]) -> None:
    stats.end()
    holes.end(member.holes)
    member.close()
    if reader is not None:
        reader.close()
