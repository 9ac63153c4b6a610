"""Horovod's own operations are told the same of planned tensors as of negotiated ones."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from against_horovod import HERE, compile_library, installed_libraries

from graph_analysis.reductions import AVERAGE, MIN, SUM

CPU = -1
AMPLE, SCANT = 1 << 27, 0  # bytes of the fusion threshold

# Reduction, scales, threshold; tensors: name, elements, device on each rank.
CASES = {
    "main memory": (SUM, 1.0, 1.0, AMPLE, [("a", 5, [CPU, CPU])]),
    "main memory, fused": (AVERAGE, 0.5, 2.0, AMPLE,
                           [("a", 5, [CPU, CPU]), ("b", 70, [CPU, CPU])]),
    "one GPU a node": (SUM, 1.0, 1.0, AMPLE, [("a", 5, [0, 0, 0])]),
    "two nodes of two GPUs, fused": (AVERAGE, 1.0, 0.25, AMPLE,
                                     [("a", 5, [0, 1, 0, 1]), ("b", 6, [0, 1, 0, 1])]),
    "GPUs in another order, not fused": (MIN, 1.0, 1.0, SCANT,
                                         [("a", 5, [3, 0, 7]), ("b", 6, [3, 0, 7])]),
}

# In a process of its own: prints what planned_response.cc says of each case on standard input.
RESPOND = """
import ctypes
import importlib
import json
import sys

framework, library = sys.argv[1:]
importlib.import_module(f"horovod.{framework}")  # loads the library that ours is linked with
planned_responses = ctypes.CDLL(library).planned_responses
planned_responses.restype, planned_responses.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
print(json.dumps([planned_responses(case.encode()).decode() for case in json.load(sys.stdin)]))
"""


def text(name: str) -> str:
    """The case as planned_response.cc reads it."""
    reduce_op, prescale, postscale, threshold, tensors = CASES[name]
    lines = [f"{reduce_op} {prescale} {postscale} {threshold} {len(tensors[0][2])}"]
    lines += [f"{tensor} {elements} {' '.join(map(str, devices))}"
              for tensor, elements, devices in tensors]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def responses(tmp_path_factory) -> dict[str, dict[str, list[str]]]:
    """By case and kind of line."""
    framework = next(iter(installed_libraries()))
    folder = tmp_path_factory.mktemp("binding")
    library = compile_library(HERE / "planned_response.cc", folder / "respond.so", framework)
    command = [sys.executable, "-c", RESPOND, framework, str(library)]
    run = subprocess.run(command, cwd=folder, check=False, text=True,
                         input=json.dumps([text(name) for name in CASES]),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.returncode == 0, run.stderr
    by_case: dict[str, dict[str, list[str]]] = {}
    for name, lines in zip(CASES, json.loads(run.stdout)):
        by_case[name] = {"negotiated": [], "planned": [], "entry": []}
        for line in lines.splitlines():
            kind, _, what = line.partition(" ")
            by_case[name][kind].append(what)
    return by_case


@pytest.mark.parametrize("name", CASES)
def test_is_what_the_controller_would_say(responses, name):
    *_, threshold, tensors = CASES[name]
    lines = responses[name]
    assert len(lines["negotiated"]) == (1 if threshold else len(tensors))
    assert lines["planned"] == lines["negotiated"]
    assert lines["entry"] == [tensor for tensor, *_ in tensors]
