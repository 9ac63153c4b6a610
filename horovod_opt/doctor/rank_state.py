"""`horovod-opt doctor --pid`: the state of one rank, from what it answers.

The lines are those of StatePage (csrc/core/report/state_page.h).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from horovod_opt.counters import CONTROLLERS
from horovod_opt.settings import mode_name


@dataclasses.dataclass(frozen=True)
class Wait:
    """A tensor that this rank has called and that is not there yet.

    kind         "begun" (its bucket lacks others), "complete" (its bucket waits for the sum),
                 "deferred" (until a vote), "held" (until the step before is over), "negotiated"
    plan         the hash of its plan; of a negotiated tensor the operation, as "allreduce"
    milliseconds since when; None: not known
    """

    process_set: int
    kind: str
    plan: str
    iteration: int
    milliseconds: int | None
    name: str

    @property
    def is_planned(self) -> bool:
        return self.kind != "negotiated"


@dataclasses.dataclass
class RankState:
    """What a rank says; `problem`: why it says nothing."""

    pid: int
    rank: int = -1
    size: int = 0
    local_rank: int = -1
    local_size: int = 0
    job: str = ""
    mode: str = ""
    controller: str = ""
    framework: str = ""
    phase: str = ""
    problem: str = ""
    lines: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    threads: list[str] = dataclasses.field(default_factory=list)
    waits: list[Wait] = dataclasses.field(default_factory=list)
    # (process set, hash of the plan): its name, and how often its tensors have been called, the
    # most of them; (process set, hash, tensor): of those that have been called less often.
    plans: dict[tuple[int, str], tuple[str, int]] = dataclasses.field(default_factory=dict)
    behind: dict[tuple[int, str, str], int] = dataclasses.field(default_factory=dict)
    # Process set, hash, iteration, tensor: not here, though others of the bucket are.
    misses: list[tuple[int, str, int, str]] = dataclasses.field(default_factory=list)
    performs: dict[str, int] = dataclasses.field(default_factory=dict)  # tensors: ms
    process_sets: dict[int, list[int]] = dataclasses.field(default_factory=dict)  # their ranks
    locked: list[str] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.rank >= 0 else f"process {self.pid}"

    @property
    def joined(self) -> set[int]:
        """The process sets in which it has."""
        return {wait.process_set for wait in self.waits if wait.plan == "join"}

    def has_called(self, wait: Wait) -> bool:
        """Whether this rank, too, has called the tensor that another one waits for."""
        if any((own.process_set, own.name) == (wait.process_set, wait.name)
               and (own.iteration == wait.iteration or not own.is_planned or own.kind == "held")
               for own in self.waits) or wait.name in self.performs:
            return True
        if not wait.is_planned:
            return False
        _, most = self.plans.get((wait.process_set, wait.plan), ("", 0))
        return self.behind.get((wait.process_set, wait.plan, wait.name), most) >= wait.iteration


def parse(pid: int, answer: str) -> RankState:
    """Facts that this version does not know are passed over."""
    state = RankState(pid)
    for line in answer.splitlines():
        kind, *fields = line.split("\t")
        if kind == "line":
            state.lines.append((int(fields[0]), fields[1]))
        elif kind == "fact":
            _take(state, fields[0], fields[1:])
    return state


def _take(state: RankState, fact: str, fields: list[str]) -> None:
    if fact == "rank":
        state.rank, state.size, state.local_rank, state.local_size = map(int, fields)
    elif fact == "job":
        state.job = fields[0]
    elif fact == "mode":
        state.mode, state.controller = mode_name(int(fields[0])), CONTROLLERS[int(fields[1])]
    elif fact == "library":
        state.framework = fields[0].split("/")[-2] if fields[0].count("/") > 1 else ""
    elif fact == "phase":
        state.phase, state.controller = fields[0], ""  # it is not known before they have met
    elif fact == "waits":
        process_set, kind, plan, iteration, age, name = fields
        state.waits.append(Wait(int(process_set), kind, plan, int(iteration),
                                int(age) if age else None, name))
    elif fact == "plan":
        state.plans[int(fields[0]), fields[1]] = fields[2], int(fields[3])
    elif fact == "behind":
        state.behind[int(fields[0]), fields[1], fields[2]] = int(fields[3])
    elif fact == "misses":
        state.misses.append((int(fields[0]), fields[1], int(fields[2]), fields[3]))
    elif fact == "performs":
        state.performs[fields[1]] = int(fields[0])
    elif fact == "set":
        state.process_sets[int(fields[0])] = [int(rank) for rank in fields[1].split(",") if rank]
    elif fact == "locked":
        state.locked.append(fields[0])


def heading(state: RankState) -> str:
    rank = f"rank {state.rank}" if state.rank >= 0 else "rank ?"
    of = f" of {state.size}" if state.size else ""
    words = [state.framework, f"mode {state.mode}" if state.mode else "", state.controller,
             f"local rank {state.local_rank} of {state.local_size}" if state.local_size else ""]
    return f"{rank}{of}, process {state.pid}: " + ", ".join(filter(None, words))


def page(state: RankState) -> Iterable[str]:
    """The lines about one rank."""
    yield heading(state).rstrip(": ")
    if state.problem:
        yield f"  {state.problem}"
    for depth, line in state.lines:
        yield "  " * (depth + 1) + line
    if state.threads:
        yield "  threads: " + "; ".join(state.threads)
