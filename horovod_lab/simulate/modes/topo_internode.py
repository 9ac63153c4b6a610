"""Mode topo between nodes whose CPUs move the data: no order, several buckets in flight.

As in csrc/core/reduction/internode_buckets.h: of each bucket the ranks of a group add up their
parts (thread hvd-planned), reduce them with other groups (thread hvd-nodes), and show each
other the sums (hvd-planned). While messages are on their way, both threads go on with others.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from horovod_lab.simulate import costs
from horovod_lab.simulate.modes.topo import Topo
from horovod_lab.simulate.nonblocking_allreduce import copied, nonblocking_allreduce
from horovod_lab.simulate.processor_sharing import TOLERANCE

Then = Callable[[float], None]  # is told the time


@dataclass
class Job:
    remaining: float  # CPU seconds
    then: Then


class Thread:
    """One thread of each rank, which all do the same at the same time."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()

    def end(self, now: float, rate: float) -> float:
        """When the first job is done, by a thread that gets `rate` of a core."""
        return now + self.jobs[0].remaining / rate if self.jobs else math.inf


class InternodeTopo(Topo):
    def begin(self) -> None:
        super().begin()
        p = self.p
        self.buckets = costs.buckets(p)
        self.size = p.gradient_bytes / self.buckets
        self.part = nonblocking_allreduce(self.groups, self.size / self.group)
        self.of_node, self.of_messages = Thread(), Thread()
        self.coming: list[tuple[float, int, Then]] = []  # by time
        self.numbers = itertools.count()  # of two at once the one that was known first
        self.wire = 0.0  # when the links are through with all that has been sent

    def train(self) -> None:
        cores, now = self.cores, self.step_start
        complete = self.buckets_through = 0
        while self.buckets_through < self.buckets:
            running, rate = self.running()
            busy = rate > 0
            end = min(self.event, now + cores.until_leaving(running, busy),
                      *(thread.end(now, rate) for thread in (self.of_node, self.of_messages)),
                      self.coming[0][0] if self.coming else math.inf)
            next_complete = math.inf
            if complete < self.buckets:
                next_complete = now + float(
                    cores.until(self.target(complete + 1), running, busy).max())
            end = min(end, next_complete)
            cores.advance(now, end, running, busy)
            self.go_on(now, end, rate)
            now = self.now = end
            if next_complete <= end + TOLERANCE:
                complete += 1
                self.complete(end)
        self.now = self.data_end = now

    def target(self, bucket: int) -> float:
        """The progress with which a rank has so many buckets complete."""
        return 1 - self.p.gradient_window * (1 - bucket / self.buckets)

    # Threads and events

    def running(self) -> tuple[np.ndarray | None, float]:
        """(how many threads of each rank want a core, what each of them gets of one)."""
        busy = bool(self.of_node.jobs) + bool(self.of_messages.jobs)
        if not busy:
            return (self.everyone if self.meeting else None), 0.0
        _, share = self.cores.sharing(busy * self.cores.shape[1], real_work=True)
        return self.everyone * busy, float(share.min())

    def go_on(self, now: float, end: float, rate: float) -> None:
        """Until `end`, the first time at which something is over."""
        over = []
        for thread in (self.of_node, self.of_messages):
            if thread.end(now, rate) <= end + TOLERANCE:
                over.append(thread.jobs.popleft().then)
            elif thread.jobs:
                thread.jobs[0].remaining -= rate * (end - now)
        while self.coming and self.coming[0][0] <= end + TOLERANCE:
            over.append(heapq.heappop(self.coming)[-1])
        for then in over:
            then(end)
        while self.event <= end:
            self.event = self.rounds.send(end)

    def at(self, when: float, then: Then) -> None:
        heapq.heappush(self.coming, (when, next(self.numbers), then))

    def give(self, thread: Thread, cpu_seconds: float, then: Then, now: float) -> None:
        """To a thread that is busy, or that another one wakes before it goes to sleep itself."""
        job = Job(cpu_seconds, then)
        if thread.jobs:
            thread.jobs.append(job)
        else:
            self.at(now + self.hand_over(self.ranks), lambda _: thread.jobs.append(job))

    # The way of a bucket

    def complete(self, now: float) -> None:
        """A framework thread of each rank wakes the first thread that the bucket needs."""
        thread = self.of_messages if self.group == 1 else self.of_node
        awake = now if thread.jobs else now + float(self.wake_up().max())
        self.at(awake, self.reduce_between_nodes if self.group == 1 else self.add_up)

    def add_up(self, now: float) -> None:
        before, _ = costs.halves(self.group, self.size)
        work = self.work_of(before) + self.packing(self.size)
        self.of_node.jobs.append(Job(work, self.reduce_between_nodes))

    def reduce_between_nodes(self, now: float) -> None:
        """The link of a node carries what all of its ranks send, one bucket after the other."""
        seconds = self.part.bytes * self.group / self.p.link_bandwidth
        self.wire = through = max(self.wire, now) + seconds
        self.give(self.of_messages, self.work_of_messages(),
                  lambda end: self.under_way(now, max(end, through)), now)

    def under_way(self, begin: float, moved: float) -> None:
        """Messages that wait for each other take `hop` each, however little they carry."""
        hop = self.messages.hop
        end = max(moved + self.part.exposed * hop, begin + self.part.hops * hop)
        self.at(end, lambda now: self.show_sums(begin, now))

    def show_sums(self, begin: float, now: float) -> None:
        _, after = costs.halves(self.group, self.size)
        if self.group == 1:
            self.end(begin, now)
        else:
            self.give(self.of_node, self.work_of(after), lambda now: self.end(begin, now), now)

    def end(self, begin: float, now: float) -> None:
        self.buckets_through += 1
        self.result.cycles += 1
        self.moves.append((max(begin, self.data_end), now))
        self.data_end = max(self.data_end, now)
        self.record("data", begin, now)

    def work_of_messages(self) -> float:
        """CPU seconds of a rank. It is woken where it has no other chunk to go on with."""
        p = self.p
        copies = 2 * copied(p.gradient_bytes / p.tensors) if self.group == 1 else 0
        return (self.part.bytes * p.message_cpu_seconds_per_byte
                + self.part.exposed * self.messages.cpu
                + copies * self.size * p.data_cpu_seconds_per_byte)

    def work_of(self, half: costs.Half) -> float:
        """CPU seconds of a rank."""
        return (self.p.data_cpu_seconds_per_byte * self.size * half.passes
                + self.p.poll_seconds * half.barriers)
