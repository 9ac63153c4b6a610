"""Which tests `make test` leaves to `make test-rest`: those get the mark `full`. Unit tests that
took no time when durations were recorded get the mark `quick`.

What is left are jobs of a kind that others have: each controller, framework and number of ranks,
one node and nodes of one rank, each mode and each fault stay in `make test` once.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import durations
import pytest

TESTS = Path(__file__).parents[1]
JOBS_FOLDER = TESTS / "jobs"
# What users do not run: tools that measure, and those of developers.
FOLDERS = ("by_hand", "lab", "fuzz", "unit/clusters", "unit/examples", "unit/gpu", "unit/harness",
           "unit/matrix")
# By file below jobs/: a regular expression of names.
JOBS = {
    "ends/test_bad_settings.py": r"\[mpi",
    "ends/test_elastic.py": r"\[topo\]|\[mpi-off",
    "ends/test_faults.py":
        r"(stopped|raises_and_shuts|sends|another_model|never_call|had_planned).*mpi"
        r"|(in_a_callback|in_a_graph|early).*gloo"
        r"|rank_ends\[(gloo-topo-kill|gloo-topo@1-raise|mpi-topo-raise|mpi-topo@1-exit)"
        r"|launcher_ends\[(mpi-topo-end|gloo-topo-kill)",
    "ends/test_late_rank.py": r"\[(busy-|stopped-)?gloo-(?!tcp)",
    "ends/test_process_ends.py": r"off|gloo-1|mpi-2-topo-states3|children\[gloo-2",
    "ends/test_shutdowns.py": r"test_(?!tensorflow|fifty).*mpi|tensorflow.*gloo|fifty.*gloo",
    "ends/test_troubled.py": r"\[mpi-",
    "input/test_input.py": r"epochs\[(mpi-2|gloo-2)|example\[torch",
    "input/test_input_refused.py": r"\[mpi",
    "launcher/test_cores.py": r"mpi",
    "launcher/test_hosts.py": r"demo\[mpi|drops_under_mpi|cores",
    "operations/test_operations.py":
        r"torch-(mpi-[134]|gloo-2)|\[mpi\]",
    "operations/test_node_memory.py": r"\[mpi",
    "operations/test_tensorflow_graphs.py": r"constants\[mpi|\[off",
    "topo/test_contradictions.py": r"gloo",
    "topo/test_late_data.py": r"\[mpi|part",
    "topo/test_planned_cpus.py": r"gloo-2|mpi",
    "topo/test_topo_calls.py": r"\[(mpi-4|mpi-2 on|gloo-3(?! on)|gloo-4)",
    "topo/test_topo_differs.py": r"mpi",
    "topo/test_topo_faults.py": r"gloo",
    "topo/test_topo_scenarios.py": r"\[(mpi-1|mpi-2\b|mpi-4|gloo-3|mpi-2-nodes-of-2|xla)",
    "topo/test_topo_sets.py": r"mpi",
    "topo/test_topo_torch.py": r"mpi-2|many",
    "training/test_features.py": r"\[gs|\[nbcs",
    "training/test_training.py": r"gloo-(off|nbcs)|mpi-gs|mpi-nbcs",
}


@functools.lru_cache(maxsize=None)
def left_of(file: Path) -> re.Pattern[str] | None:
    """The names of the tests in `file` that are left; None: none."""
    if any(TESTS / folder in file.parents for folder in FOLDERS):
        return re.compile("")
    names = JOBS.get(str(file.relative_to(JOBS_FOLDER))) if JOBS_FOLDER in file.parents else None
    return re.compile(names) if names else None


def is_left(item: pytest.Item) -> bool:
    left = left_of(item.path)
    return left is not None and left.search(item.nodeid.partition("::")[2]) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow, unit = durations.recorded(), str(TESTS / "unit")
    for item in items:
        if is_left(item):
            item.add_marker("full")
        if str(item.path).startswith(unit) and item.nodeid not in slow:
            item.add_marker("quick")
