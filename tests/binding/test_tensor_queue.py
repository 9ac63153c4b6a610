"""Upstream's queue has one tensor of a name at a time: what a plan gives back waits its turn."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import defaultdict

import pytest
from against_horovod import HERE, compile_library, installed_libraries

PROGRAMS, ACTIONS = 8, 1000
NAMES = ("a", "b", "c")
DUPLICATE = "the same name as another tensor"

# In a process of its own: prints what tensor_queue.cc says of each program on standard input.
RUN = """
import ctypes
import importlib
import json
import sys

framework, library = sys.argv[1:]
importlib.import_module(f"horovod.{framework}")  # loads the library that ours is linked with
run = ctypes.CDLL(library).queue_program
run.restype, run.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
print(json.dumps([run(program.encode()).decode() for program in json.load(sys.stdin)]))
"""


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


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    framework = next(iter(installed_libraries()))
    folder = tmp_path_factory.mktemp("binding")
    return framework, compile_library(HERE / "tensor_queue.cc", folder / "queue.so", framework)


def test_the_next_of_a_name_follows_when_the_one_before_is_answered(library):
    rng = random.Random(7)
    programs = [draw(rng) for _ in range(PROGRAMS)]
    run = subprocess.run([sys.executable, "-c", RUN, *map(str, library)], check=False, text=True,
                         input=json.dumps([text for text, _ in programs]),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.returncode == 0, run.stderr
    for (text, expected), said in zip(programs, json.loads(run.stdout)):
        *lines, end = [line.strip() for line in said.splitlines()]
        assert len(lines) + 1 == len(expected), text
        for line, right in zip(lines, expected):
            assert (right in line) if right == DUPLICATE else line == right, text
        assert " ".join(map(str, sorted(map(int, end.split())))) == expected[-1], text
