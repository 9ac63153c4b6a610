"""The fuzzing targets without a fuzzer: inputs that once went wrong, and hundreds of others."""

from __future__ import annotations

import importlib
import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import HANG_SECONDS

HERE = Path(__file__).parent
CORPUS = sorted(HERE.glob("corpus/*/*"))
INPUTS = {"plan": 1200, "graph": 1000, "graph_def": 2500, "c_api": 500}  # a second, or little more
LENGTHS = (5, 30, 100, 300)


def target(name: str):
    if name == "graph_def":
        pytest.importorskip("tensorflow")
    return importlib.import_module(f"fuzz_{name}").target


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_once_went_wrong(file):
    target(file.parent.name)(file.read_bytes())


@pytest.mark.parametrize("name", ["plan", "graph", "graph_def"])
def test_random_input(name):
    """From a fixed seed, and neighbours of the corpus."""
    run, numbers = target(name), random.Random(1)
    inputs = [file.read_bytes() for file in CORPUS if file.parent.name == name]
    for number in range(INPUTS[name]):
        data = bytearray(numbers.randbytes(numbers.choice(LENGTHS)))
        if number % 2 and inputs:
            data = bytearray(numbers.choice(inputs))
            for _ in range(3):
                data[numbers.randrange(len(data))] = numbers.randrange(256)
        try:
            run(bytes(data))
        except Exception as error:
            raise AssertionError(f"{name}: {bytes(data).hex()}") from error


def test_the_native_side_survives():
    """In a process of its own, which a wrong answer would end."""
    if importlib.util.find_spec("horovod.torch") is None:
        pytest.skip(f"horovod-opt is not installed for {sys.executable}")
    ended = subprocess.run(
        [sys.executable, HERE / "fuzz_c_api.py", str(INPUTS["c_api"])], capture_output=True,
        text=True, timeout=HANG_SECONDS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{INPUTS['c_api']} inputs, " in ended.stdout
