"""Tasks of srun whose MPI does not know of the others: hvd.init() says that they train apart."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = "import horovod.torch as hvd; hvd.init({}); print(hvd.size())"
# What srun gives to the first of four tasks.
FIRST = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}


@pytest.mark.parametrize("ranks, environment, says", [
    ("", FIRST, True),
    ("[0]", FIRST, False),  # the script wants it so
    ("", {**FIRST, "SLURM_PROCID": "1"}, False),
    ("", {}, False),
])
def test_it_is_said_once(need, ranks, environment, says):
    need("torch", "mpi")
    inherited = {name: text for name, text in os.environ.items() if "SLURM" not in name}
    ended = subprocess.run([sys.executable, "-c", START.format(ranks)], capture_output=True,
                           text=True, env={**inherited, **environment}, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "1\n"
    assert ("srun has started 4 tasks, but Horovod has 1 rank" in ended.stderr) == says
