"""A user's mypy sees the package's types: a wrong call is an error before a job runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

import horovod_opt

ROOT = Path(__file__).parents[3]

RIGHT = """
import horovod_opt
import horovod_opt.io as hio

stats: horovod_opt.Stats = horovod_opt.stats()
seconds: float = stats.background_seconds
with hio.open("/data/train-*.tar", seed=3, weights=None, parts=["jpg", "cls"]) as data:
    samples: int = len(data)
    loader = hio.torch.loader(data, batch_size=8, decode=lambda sample: sample.number)
burst_buffer = hio.BurstBuffer("/fast", "/slow", keep=3)
"""
# Each is an error that names this.
WRONG = {
    'hio.open("/data/*.tar", sead=3)': '"sead"',
    'hio.open("/data/*.tar", seed="three")': 'expected "int"',
    "hio.open(5)": '"int"',
    'hio.torch.loader(hio.open("/data/*.tar"), batchsize=8)': '"batchsize"',
    'hio.torch.loader("/data/*.tar", batch_size=8)': 'expected "Data"',
    'hio.BurstBuffer("/fast")': '"slow"',
    "horovod_opt.stats().cycle": '"cycle"',
    "horovod_opt.stats(1)": 'expected "str | None"',
    "text: str = horovod_opt.stats().cycles": '"int"',
    "horovod_opt.stat()": "not callable",
}


@pytest.mark.full
def test_a_wrong_call_is_caught(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(RIGHT + "\n".join(WRONG) + "\n")
    first = len(RIGHT.splitlines()) + 1
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir",
         tmp_path / "cache", program], capture_output=True, text=True, cwd=ROOT)
    found = {}
    for line, text in re.findall(r"train\.py:(\d+): error: (.*)", run.stdout):
        found[int(line)] = found.get(int(line), "") + text
    assert set(found) == set(range(first, first + len(WRONG))), run.stdout + run.stderr
    for number, (call, named) in enumerate(WRONG.items(), first):
        assert named in found[number].replace("Optional[str]", "str | None"), (call, found[number])


def test_the_mark_is_beside_the_package():
    """Without it, type checkers look at nothing of an installed package."""
    assert Path(horovod_opt.__file__).with_name("py.typed").exists()
