"""Upstream's queue has one tensor of a name at a time: what a plan gives back waits its turn."""

from __future__ import annotations

import random
from collections import defaultdict

from against_horovod import HERE, sayings

PROGRAMS, ACTIONS = 8, 1000
NAMES = ("a", "b", "c")
DUPLICATE = "the same name as another tensor"


def draw(rng: random.Random) -> tuple[str, list[str]]:
    """A program and what the queue has to say: of each name, who is in it and who waits."""
    of_name: dict[str, list[int]] = defaultdict(list)
    requests: list[int] = []
    lines, expected = [], []
    for number in range(1, ACTIONS):
        name = rng.choice(NAMES)
        action = rng.choice(("call", "call", "give-back", "negotiate", "respond"))
        queued = of_name[name]
        if action == "respond" and not queued:
            continue
        lines.append(f"{action} {name} {number}")
        if action == "negotiate":
            expected.append(" ".join(map(str, requests)))
            requests.clear()
        elif action == "respond":
            expected.append(str(queued.pop(0)))
            requests += queued[:1]
        elif action == "call" and queued:
            expected.append(DUPLICATE)
        else:
            expected.append("ok")
            requests += [] if queued else [number]
            queued.append(number)
    lines.append("end all 0")
    expected.append(" ".join(map(str, sorted(sum(of_name.values(), [])))))
    return "\n".join(lines), expected


def test_the_next_of_a_name_follows_when_the_one_before_is_answered(tmp_path):
    rng = random.Random(7)
    programs = [draw(rng) for _ in range(PROGRAMS)]
    said = sayings(HERE / "tensor_queue.cc", "queue_program", [text for text, _ in programs],
                   tmp_path)
    for (text, expected), lines in zip(programs, map(str.splitlines, said)):
        *lines, end = map(str.strip, lines)
        assert len(lines) + 1 == len(expected), text
        for line, right in zip(lines, expected):
            assert (right in line) if right == DUPLICATE else line == right, text
        assert " ".join(map(str, sorted(map(int, end.split())))) == expected[-1], text
