"""What the states of a saver amount to, and the targets of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from horovod_lab.io.crashes.states import State
from horovod_lab.io.savers import (
    ASYNC,
    BURST,
    DIRECT,
    MEMORY,
    NEW,
    NEW_FOUND,
    OLD_FOUND,
    OUTCOMES,
    SAVERS,
    TIMED,
)

BEFORE, AFTER = PHASES = ("before", "after")  # the call that saves the new version has returned
LOST, DURABLE = "lost_seconds", "durable_seconds"
OURS = ("hio-torch", "hio-keras", "hio-buffer")


class Found(NamedTuple):
    """What a loader finds in a state."""

    state: State
    outcome: str
    error: str

    @property
    def phase(self) -> str:
        return AFTER if self.state.mark == NEW else BEFORE

    @property
    def is_loss(self) -> bool:
        return is_loss(self.phase, self.outcome)


def is_loss(phase: str, outcome: str) -> bool:
    """While the new version is being saved the old one will do."""
    return outcome != NEW_FOUND and not (phase == BEFORE and outcome == OLD_FOUND)


def count(found: Iterable[Found]) -> dict[str, dict[str, int]]:
    """Of states that differ, by phase and outcome."""
    counts = {phase: Counter() for phase in PHASES}
    for each in found:
        counts[each.phase][each.outcome] += 1
    return {phase: {outcome: counts[phase][outcome] for outcome in OUTCOMES} for phase in PHASES}


def examples(found: Iterable[Found]) -> list[Found]:
    """Of each kind of loss the one that takes the least to come about: a kill, if that is enough,
    else the fewest lost parts."""
    best: dict[tuple[str, str], Found] = {}
    for each in found:
        key = each.phase, each.outcome
        if each.is_loss and (key not in best or len(each.state.lost) < len(best[key].state.lost)):
            best[key] = each
    return list(best.values())


def losses(measurement: dict[str, Any]) -> int:
    return sum(number for phase, counts in measurement["states"].items()
               for outcome, number in counts.items() if is_loss(phase, outcome))


def kill_losses(measurement: dict[str, Any]) -> int:
    """Of those, after which all that was written is there."""
    return sum(number for phase, counts in measurement["killed"].items()
               for outcome, number in counts.items() if is_loss(phase, outcome))


def targets(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Target, value, whether it is met."""
    by_name = {each["saver"]: each for each in document["measurements"]}
    rows = []
    for name in OURS:
        there = by_name.get(name)
        if there is None or "failed" in there:
            rows.append((f"C1 states that {SAVERS[name].label} loses: 0", "", "not measured"))
        else:
            value = losses(there)
            rows.append((f"C1 states that {SAVERS[name].label} loses: 0", str(value),
                         "no" if value else "yes"))
    others = [each for name, each in by_name.items()
              if name not in OURS and name in SAVERS and "failed" not in each]
    if others:
        least = min(others, key=losses)
        rows.append(("C1 states that each of the others loses: 1 or more",
                     f"{losses(least)} ({SAVERS[least['saver']].label})",
                     "yes" if losses(least) else "no"))
    timed = {name: by_name[name] for name in TIMED if "lost_seconds" in by_name.get(name, {})}
    for text, way, over, key, most in (
            ("C3 time lost beside saving to the slow storage: 1/2.6", BURST, DIRECT, LOST, 1 / 2.6),
            ("C4 time lost beside async_save, fast in memory: 1.2", MEMORY, ASYNC, LOST, 1.2),
            ("C4 until a version is durable beside async_save: less", MEMORY, ASYNC, DURABLE, 1)):
        if {way, over} <= timed.keys():
            value = timed[way][key] / timed[over][key]
            rows.append((text, f"{value:.2f}", "yes" if value <= most else "no"))
        else:
            rows.append((text, "", "not measured"))
    return rows
