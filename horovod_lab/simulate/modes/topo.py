"""Mode topo, graph topology (6.3.4): order and fusion of tensors are known beforehand, so buckets
are reduced as they become complete, and rounds of negotiation are rare.

The rules are those of docs/how/topo-reduction.md, on one node and wherever GPUs move the data: that
needs an order on which one rank of each node agrees with the others. What CPUs send between
nodes is in topo_internode.py.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator

import numpy as np

from horovod_lab.simulate import costs
from horovod_lab.simulate.modes.messages import Messages
from horovod_lab.simulate.training import Training

FIRST_LISTENING = 1e-3  # seconds after a round that was asked for
LONGEST_LISTENING = 10e-3  # seconds, or
PART_OF_QUIET = 1 / 20  # of the time since that round, if that is longer
HEARTBEATS_BETWEEN_NODES = 10  # where messages wake a thread
MARKS = 8  # points in time of which the progress is kept: those of the last two or three buckets


class Listening:
    """When a round of negotiation begins: as in csrc/binding/modes/topo/rounds.cc. Within a group,
    a rank that has a request notifies the others; if none does a round comes after a heartbeat.
    Over TCP (`notifies`) other groups hear of it, too, and heartbeats are rare. MPI wakes nobody:
    so rounds come soon after a request, and less and less often while nobody asks. Before the first
    request it counts as if nobody had asked for long."""

    def __init__(self, heartbeat: float, groups: int, notifies: bool):
        self.hears = groups == 1 or notifies  # of a request, as soon as there is one
        self._heartbeat = heartbeat * (HEARTBEATS_BETWEEN_NODES if groups > 1 and notifies else 1)
        self._next, self._last_request = math.inf, -math.inf

    def note_request(self, now: float) -> None:
        """A round with a request has ended."""
        self._next, self._last_request = FIRST_LISTENING, now

    def wait(self, now: float) -> float:
        """Seconds from `now`, the end of a round, until the next."""
        if self.hears:
            return self._heartbeat
        wait = min(self._heartbeat, self._next)
        quiet = now - self._last_request
        self._next = min(2 * self._next, max(LONGEST_LISTENING, PART_OF_QUIET * quiet))
        return wait


class Topo(Training):
    planned = True

    def begin(self) -> None:
        p = self.p
        self.groups, self.group = costs.groups(p, self.ranks)
        self.messages = Messages(p)
        self.listening = Listening(p.heartbeat_seconds, self.groups, bool(p.tcp_messages))
        self.everyone = np.ones(self.cores.shape, bool)
        # Operations on GPUs and rounds share a thread and a communicator: rounds are in the queue.
        self.shared_thread = not p.data_cpu_seconds_per_byte
        self.rounds = self.negotiate()
        self.event = next(self.rounds) if self.ranks > 1 else math.inf  # when they go on
        self.round_begin = math.inf  # of the round under way
        self.meeting = False  # the background threads wait in it
        self.joined: np.ndarray | None = None  # when each leader came to the last agreement
        self.agreed = 0.0  # when it was over
        self.free = 0.0  # when the planned threads are through with the last bucket
        self.marks: deque[tuple[float, np.ndarray]] = deque(maxlen=MARKS)

    def train(self) -> None:
        p = self.p
        buckets = costs.buckets(p)
        now = self.step_start
        self.marks.clear()
        for bucket in range(1, buckets + 1):
            target = 1 - p.gradient_window * (1 - bucket / buckets)
            complete, now = self.reach(target, now)
            if self.ranks > 1:
                now = self.perform(complete, now, p.gradient_bytes / buckets)
        self.now = self.data_end = max(self.data_end, now)

    def perform(self, complete: np.ndarray, now: float, size: float) -> float:
        """A bucket of `size` bytes, from where each rank has it complete."""
        ordered = self.order(complete)
        begin = np.full(self.cores.shape, max(ordered, self.free))
        if ordered > self.free:
            begin += self.wake_up()
        self.record("asleep", self.data_end if self.moves else self.step_start, ordered)
        if self.shared_thread:
            begin += self.hand_over(self.ranks)
        self.record("overslept", ordered, begin)
        start = max(now, float(begin.max()))
        self.compute(now, start)
        while self.shared_thread and self.round_begin < ordered:  # the round was there first
            end = max(start, self.event)
            self.compute(start, end)
            start = end
        self.mark(start)
        self.free = self.move(start, size)
        self.mark(self.free)
        self.result.cycles += 1
        return self.free

    def wake_up(self) -> np.ndarray:
        """How late a thread of each rank runs that is woken now."""
        self.cores.background_seconds += self.p.poll_seconds * self.ranks
        return self.oversleeps(self.everyone, 0.0)

    def hand_over(self, threads: int) -> float:
        """How much later a thread runs than the one that wakes it: there is a core for it, since
        that one goes to sleep. So on `threads` ranks."""
        self.cores.background_seconds += self.p.poll_seconds * threads
        return self.p.timer_slack_seconds

    # The order of buckets

    def order(self, complete: np.ndarray) -> float:
        """When all ranks have it in the queues from which they reduce."""
        if self.groups == 1:
            return float(complete.max())
        ready = complete.reshape(self.groups, self.group).max(axis=1)
        if self.joined is None or (ready > self.joined).any():
            self.agree(ready)
        return self.agreed  # else it was ready everywhere when the last agreement began

    def agree(self, ready: np.ndarray) -> None:
        """The leaders' threads meet in an AND of what is ready on their groups, one after the
        other. The thread of the messages performs it for them, and wakes them at its end."""
        woken = np.zeros(self.ranks, bool)
        woken[::self.group] = ready > self.agreed
        late = self.oversleeps(woken.reshape(self.cores.shape), 0.0).ravel()[::self.group]
        self.joined = np.maximum(ready, self.agreed) + late
        has_all, cpu = self.messages.add_up(self.joined + self.hand_over(self.groups))
        self.agreed = float(has_all.max()) + self.hand_over(self.groups)
        self.result.agreements += 1
        self.cores.background_seconds += cpu

    # The negotiated path

    def negotiate(self) -> Generator[float, float, None]:
        """Rounds: the ranks tell each other what they want, and look which cached tensors are
        ready. Yields when something happens next, gets the time."""
        p, now = self.p, 0.0
        hops, cost = costs.hops(p, self.ranks), costs.small_allreduce(p, self.ranks)
        request = p.request_seconds or math.inf  # when somebody has the next one
        while True:
            due = now + max(self.listening.wait(now), p.cycle_seconds)
            now = yield max(now, min(due, request)) if self.listening.hears else due
            self.round_begin = now
            arrivals = now + self.wake_up() + self.notify()
            if self.shared_thread:  # the first of a group to wake up puts the round into its queue
                first = arrivals.reshape(self.groups, self.group).min(axis=1)
                if self.groups > 1:
                    self.agree(first)
                now = yield self.agreed if self.groups > 1 else float(first[0])
                arrivals = np.maximum(arrivals, now + self.wake_up() + self.hand_over(self.ranks))
            end = self.naps.meet(arrivals, hops, cost) + cost
            self.record("napping", arrivals, end)
            self.cores.background_seconds += 2 * p.poll_seconds * self.ranks
            self.result.rounds += 1
            self.meeting = True
            now = yield end
            self.meeting, self.round_begin = False, math.inf
            if request <= now:
                self.listening.note_request(now)
                request = now + p.request_seconds

    def notify(self) -> float:
        """Seconds until the last group knows of a round: each tells its neighbours."""
        if self.groups == 1 or not self.p.tcp_messages:
            return 0.0
        hops = costs.cross_hops(self.groups)
        self.cores.background_seconds += 2 * hops * self.groups * self.p.message_cpu_seconds
        return hops * self.messages.hop

    # The framework

    def compute(self, now: float, end: float) -> None:
        """The framework goes on from `now` to `end`, beside the rounds that come in between."""
        while True:
            while now >= self.event:
                self.event = self.rounds.send(now)
            if now >= end:
                return
            until = min(end, self.event)
            self.cores.advance(now, until, self.everyone if self.meeting else None)
            now = until

    def reach(self, target: float, now: float) -> tuple[np.ndarray, float]:
        """(when each rank is so far, when the last is, or `now`)."""
        self.mark(now)
        while True:
            longest = float(self.cores.until(target).max())
            if longest <= 1e-12:
                break
            self.compute(now, now + longest)
            now += longest
            self.mark(now)
        if target >= 1:
            return self.cores.ready.copy(), now
        return self.crossed(target), now

    def mark(self, now: float) -> None:
        if self.p.gradient_window:
            self.marks.append((now, self.cores.progress()))

    def crossed(self, target: float) -> np.ndarray:
        """When each rank was so far, by its progress between two marks; at the first mark at the
        earliest."""
        marks = list(self.marks)
        times = np.where(marks[0][1] >= target, marks[0][0], marks[-1][0])
        for (begin, before), (end, after) in zip(marks, marks[1:]):
            here = (before < target) & (target <= after)
            part = (target - before[here]) / (after - before)[here]
            times[here] = begin + (end - begin) * part
        return times

    # Moving the data

    def work(self, size: float) -> float:
        barriers = 0 if self.shared_thread else costs.barriers(self.group, size)
        return super().work(size) + barriers * self.p.poll_seconds

    def network(self, size: float) -> float:
        return costs.data_allreduce(self.p, self.ranks, size)
