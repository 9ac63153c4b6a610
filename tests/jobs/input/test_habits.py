"""The scripts of examples/habits that tables of docs/use/io-habits.md name, in jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from selection import rest_by_hand

HABITS = Path(__file__).parents[3] / "examples" / "habits"
FOLDERS = {"torch": ("webdataset", "dataloader", "arguments"), "tensorflow": ("tfdata",)}
ROWS = [*((framework, controller, ranks) for framework in FOLDERS for controller in ("mpi", "gloo")
          for ranks in (1, 2, 3)), ("torch", "gloo", 4)]


@pytest.mark.parametrize("framework, controller, ranks", rest_by_hand(
    ROWS, lambda *row: row in (("torch", "mpi", 2), ("tensorflow", "gloo", 2))))
def test_each_script_says_its_line(job, framework, controller, ranks):
    """All scripts of a framework in one job: its ranks run one after the other."""
    for module in ("aiohttp", "fsspec", "PIL", "sklearn", "zstandard"):
        pytest.importorskip(module)
    scripts = [str(path) for folder in FOLDERS[framework]
               for path in sorted((HABITS / folder).glob("*.py"))]
    assert scripts
    # In topo ranks that wait for each other take no time.
    first, *others = job("habit_scripts", *scripts, framework=framework, controller=controller,
                         ranks=ranks, HOROVOD_OPT_MODE="topo").expect_success().of_ranks(ranks)
    assert {script: len(first["lines"][script]) for script in scripts} == dict.fromkeys(scripts, 1)
    for rank in others:
        assert rank["lines"] == dict.fromkeys(scripts, [])
