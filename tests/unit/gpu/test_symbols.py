"""What is said of the symbols that a wheel exports."""

from __future__ import annotations

from pathlib import Path

import symbols_command
from gpu_table import FAILED, PASSED
from symbols_command import compile_command, missing, parse_arguments, row, symbols_of

OPS, STREAM = "_ZN10tensorflow8OpKernelD2Ev", "_ZN15stream_executor3gpu16AsGpuStreamValueE"
OWN, OTHERS = "_ZN7horovod6common6StatusE", "cudaEventRecord"


def test_only_tensorflows_own_symbols_can_be_missing():
    assert missing([OPS, STREAM, OWN, OTHERS], {OPS}) == [STREAM]
    assert missing([OWN, OTHERS], set()) == []


def test_rows():
    found = row("2.20.0", {OPS, STREAM, OWN}, {OPS, STREAM})
    assert (found.value, found.outcome) == ("2 symbols, 1 of stream_executor", PASSED)
    lost = row("2.21.0", {OPS, STREAM, OWN}, {OPS})
    assert lost.outcome == FAILED and lost.value.endswith(f"1 missing: {STREAM}")


def test_symbols_as_nm_lists_them(monkeypatch):
    class Result:
        stdout = f"""
lib.so.2:
0000000000000010 T {OPS}
                 U {OTHERS}@libcudart.so.13
"""

    monkeypatch.setattr(symbols_command.subprocess, "run", lambda *_, **__: Result)
    assert symbols_of(["nm"]) == {OPS, OTHERS}


def test_the_version_and_the_options():
    command = compile_command(Path("a.cc"), Path("a.o"), "2.21.3", Path("/w"), Path("/u"),
                              Path("/g"), Path("/cuda"))
    assert "-DTENSORFLOW_VERSION=2021003000" in command
    assert {"-DHAVE_GPU=1", "-I/w/tensorflow/include/", "-I/cuda/include"} & {*command}
    assert parse_arguments(["folder", "--versions", "2.20.0,2.21.0"]).versions == [
        "2.20.0", "2.21.0"]
