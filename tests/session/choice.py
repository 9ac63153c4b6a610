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
# What users do not run: tools that measure, and those of developers.
FOLDERS = ("by_hand", "lab", "fuzz", "unit/clusters", "unit/examples", "unit/gpu", "unit/harness",
           "unit/matrix")
# By file: a regular expression of names.
FILES = {
    "binding/test_gloo_threads.py": r"\[thread\]",
    "jobs/ends/test_bad_settings.py": r"\[mpi",
    "jobs/ends/test_elastic.py": r"\[topo\]|\[mpi-off",
    "jobs/ends/test_faults.py":
        r"(stopped|raises_and_shuts|sends|another_model|never_call|had_planned).*mpi"
        r"|(in_a_callback|in_a_graph|early).*gloo"
        r"|rank_ends\[(gloo-topo-kill|gloo-topo@1-raise|mpi-topo-raise|mpi-topo@1-exit)"
        r"|launcher_ends\[(mpi-topo-end|gloo-topo-kill)",
    "jobs/ends/test_late_rank.py": r"\[(busy-|stopped-)?gloo|pause",
    "jobs/ends/test_process_ends.py":
        r"off|gloo-1|mpi-2-topo-states3|children\[gloo-2|memory\[tensorflow",
    "jobs/ends/test_shutdowns.py": r"test_(?!tensorflow|fifty).*mpi|tensorflow.*gloo|fifty.*gloo",
    "jobs/ends/test_troubled.py": r"\[mpi-",
    "jobs/input/test_habits.py": r"each",
    "jobs/input/test_input.py": r"epochs\[(mpi-2|gloo-2)|example",
    "jobs/input/test_input_elastic.py": r"twice\[(tensorflow|torch-\{\"global)|hosts|examples",
    "jobs/input/test_input_refused.py": r"\[mpi",
    "jobs/launcher/test_cores.py": r"mpi",
    "jobs/launcher/test_hosts.py": r"demo|drops_under_mpi|cores",
    "jobs/operations/test_operations.py": r"torch-(mpi-[134]|gloo-2)|\[mpi\]",
    "jobs/operations/test_node_memory.py": r"\[mpi",
    "jobs/operations/test_tensorflow_graphs.py": r"constants\[mpi|\[off",
    "jobs/topo/test_abandoned_steps.py": r"mpi",
    "jobs/topo/test_contradictions.py": r"gloo",
    "jobs/topo/test_late_data.py": r"\[mpi|part",
    "jobs/topo/test_planned_cpus.py": r"gloo-2|mpi",
    "jobs/topo/test_topo_calls.py": r"\[(mpi-4|mpi-2 on|gloo-3(?! on)|gloo-4)",
    "jobs/topo/test_topo_differs.py": r"mpi",
    "jobs/topo/test_topo_faults.py": r"gloo|nothing_behind|rank_joins|killed\[mpi-mpi-nodes",
    "jobs/topo/test_topo_scenarios.py":
        r"\[(mpi-2\b|mpi-4|gloo|mpi-2-nodes-of-2|xla|mpi-2-operations)",
    "jobs/topo/test_topo_sets.py": r"mpi",
    "jobs/topo/test_topo_torch.py": r"-2\]|each_is|forgotten",
    "jobs/training/test_features.py": r"\[gs|\[nbcs",
    "jobs/training/test_keras.py": r"\[(\w*-)?2[\]-]|other_backends",
    "jobs/training/test_programs.py": r"tensorflow|delays",
    "jobs/training/test_training.py": r"gloo-(off|nbcs)|mpi-gs|mpi-nbcs",
    "unit/building/test_environment.py": r"without_horovod",
    "unit/io/keras/test_resume.py": r"generator",
}


@functools.lru_cache(maxsize=None)
def left_of(file: Path) -> re.Pattern[str] | None:
    """The names of the tests in `file` that are left; None: none."""
    if any(TESTS / folder in file.parents for folder in FOLDERS):
        return re.compile("")
    names = FILES.get(str(file.relative_to(TESTS))) if TESTS in file.parents else None
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
