"""The fuzzing targets without a fuzzer: inputs that once went wrong, and some seconds of others."""

from __future__ import annotations

import importlib
import importlib.util
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CORPUS = sorted(HERE.glob("corpus/*/*"))
SECONDS = 1.0
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
    """From a fixed seed, as many as there is time for, and neighbours of the corpus."""
    run, numbers = target(name), random.Random(1)
    inputs = [file.read_bytes() for file in CORPUS if file.parent.name == name]
    end = time.monotonic() + SECONDS
    for number in range(50_000):
        data = bytearray(numbers.randbytes(numbers.choice(LENGTHS)))
        if number % 2 and inputs:
            data = bytearray(numbers.choice(inputs))
            for _ in range(3):
                data[numbers.randrange(len(data))] = numbers.randrange(256)
        try:
            run(bytes(data))
        except Exception as error:
            raise AssertionError(f"{name}: {bytes(data).hex()}") from error
        if time.monotonic() > end:
            break


def test_the_native_side_survives():
    """In a process of its own, which a wrong answer would end."""
    if importlib.util.find_spec("horovod.torch") is None:
        pytest.skip(f"horovod-opt is not installed for {sys.executable}")
    ended = subprocess.run(
        [sys.executable, HERE / "fuzz_c_api.py", str(SECONDS)], capture_output=True, text=True,
        timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " inputs, " in ended.stdout
