"""Which tests `make test` leaves to `make test-rest`: those get the mark `full`. Unit tests that
took no time when durations were recorded get the mark `quick`.

What is left are jobs of a kind that others have. `make test` has each controller, framework and
mode, 2 and 3 ranks, one node and nodes of one rank, and each kind of fault but that of a network;
of jobs that differ in one of these only, it has the shortest.
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
    "jobs/ends/test_bad_settings.py": r"\[mpi|does_not_catch",
    "jobs/ends/test_elastic.py": r"\[topo\]|\[mpi-off",
    "jobs/ends/test_faults.py":
        r"(stopped|raises_and_shuts|sends|another_model|never_call|had_planned).*mpi"
        r"|(in_a_callback|in_a_graph|early).*gloo"
        r"|rank_ends\[(?!mpi-topo-kill|gloo-topo-exit)"
        r"|launcher_ends\[(mpi-topo-end|gloo-topo-kill)",
    "jobs/ends/test_late_rank.py": r"\[(busy-|stopped-)?gloo|pause",
    "jobs/ends/test_process_ends.py":
        r"off|gloo-1|mpi-2-topo-states3|children\[gloo-2|takes_no_memory|lock|thread",
    "jobs/ends/test_shutdowns.py": r"test_(?!tensorflow).*mpi|tensorflow.*gloo|fifty",
    "jobs/ends/test_troubled.py": r"\[mpi-|message\[gloo-0|missed\[-1",
    "jobs/input/test_habits.py": r"each",
    "jobs/input/test_input.py":
        r"epochs\[(mpi-2|gloo)|example|upstreams|nodes_keep|dies_ends.*\[0|needs_no_horovod",
    "jobs/input/test_input_elastic.py": r"twice\[(tensorflow|torch-\{\"global)|hosts|examples",
    "jobs/input/test_input_refused.py": r"\[(mpi|gloo)",
    "jobs/launcher/test_cores.py": r"mpi",
    "jobs/launcher/test_hosts.py": r"demo|drops|cores|gloo-gloo",
    "jobs/launcher/test_launcher_ranks.py": r"said_once.*False",
    "jobs/operations/test_operations.py": r"torch-(mpi-[134]|gloo-2)|\[gloo\]",
    "jobs/operations/test_node_memory.py": r"\[gloo",
    "jobs/operations/test_tensorflow_graphs.py":
        r"constants\[mpi|\[off|in_place.*(node|operations)\]",
    "jobs/operations/test_torch_distributed.py":
        r"(3-1|4-2)\]|name_gloo\[2-2|was_killed\[1|mpi-gloo",
    "jobs/topo/test_abandoned_steps.py": r"mpi",
    "jobs/topo/test_contradictions.py": r"gloo|function",
    "jobs/topo/test_doctor_asks.py": r"mpi",
    "jobs/topo/test_late_data.py": r"\[gloo|part",
    "jobs/topo/test_planned_cpus.py": r"gloo-2|mpi",
    "jobs/topo/test_topo_calls.py": r"\[(mpi-4|gloo)",
    "jobs/topo/test_topo_differs.py": r"gloo",
    "jobs/topo/test_topo_faults.py": r"gloo|nothing_behind|rank_joins|killed",
    "jobs/topo/test_topo_scenarios.py": r"\[(mpi|gloo-3|xla)",
    "jobs/topo/test_topo_sets.py": r"gloo|mpi-4",
    "jobs/topo/test_topo_torch.py": r"mpi-3|gloo|each_is|forgotten",
    "jobs/training/test_features.py": r"\[gs|\[nbcs",
    "jobs/training/test_keras.py": r"\[(\w*-)?2[\]-]|other_backends|after_a_death",
    "jobs/training/test_programs.py": r"test",
    "jobs/training/test_training.py": r"gloo-(off|nbcs)|mpi-gs|mpi-nbcs",
    "unit/building/test_environment.py": r"without_horovod|no-framework|no-file|another-horovod",
    "unit/building/test_make_venv.py": r"test",
    "unit/building/test_patches.py": r"test",
    "unit/building/test_upstream.py": r"test",
    "unit/graph/test_graph_docs.py": r"test",
    "unit/io/contract/test_compressed.py": r"plain_files.*-(2-1-1|3-0-1)\]|a_node.*3-3",
    "unit/io/keras/test_resume.py": r"generator",
    "unit/io/tensorflow/test_dataset.py": r"generator",
    "unit/io/tensorflow/test_samples.py": r"generator",
    "unit/io/troubles/test_skips.py": r"error\[failing.*workers",
    "unit/planning/test_plan_command.py": r"train_on",
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
