"""The tests of a row: a fixed part of this repository's, of what one framework needs."""

from __future__ import annotations

from matrix_rows import TENSORFLOW, TORCH
from suites import Suite


def _suite(name: str, file: str, selected: str = "") -> Suite:
    """A file below tests/, and what -k takes of it."""
    return Suite(name, file, launched=False, selected=selected)


KERAS_3 = "not [2] and not [2- and not -2]"
# Left out are jobs of three and more ranks, faults, virtual hosts, and tests of both frameworks.
SUITES = {
    TENSORFLOW: (
        _suite("operations", "jobs/operations/test_operations.py", "tensorflow-mpi-2"),
        _suite("training", "jobs/training/test_training.py", "tensorflow"),
        _suite("topo", "jobs/topo/test_topo_scenarios.py", "mpi-2 and not mpi-2-"),
        _suite("constants", "jobs/operations/test_tensorflow_graphs.py",
               "test_collectives_of_constants"),
        _suite("Keras", "jobs/training/test_keras.py", KERAS_3),
        _suite("elastic", "jobs/ends/test_elastic.py", "test_each_error"),
        _suite("input", "unit/io/tensorflow/test_dataset.py"),
        _suite("kernel", "unit/io/tensorflow/test_kernel.py"),
        _suite("graphs", "unit/graph/test_graph_tensorflow.py"),
        _suite("hooks", "unit/planning/test_tensorflow_hooks.py"),
        _suite("bfloat16", "unit/bfloat16/test_bfloat16.py"),
    ),
    TORCH: (
        _suite("operations", "jobs/operations/test_operations.py", "torch-mpi-2 or torch-gloo-2"),
        _suite("training", "jobs/training/test_training.py", "torch"),
        _suite("topo", "jobs/topo/test_topo_torch.py", "mpi-2 or gloo-2"),
        _suite("calls", "jobs/topo/test_topo_calls.py", "mpi-2"),
        _suite("optimizer", "jobs/operations/test_torch_optimizer.py"),
        _suite("elastic", "jobs/input/test_input_elastic.py", "test_nothing_is_lost and torch"),
        _suite("input", "unit/io/torch/test_loader.py"),
        _suite("gradients", "unit/planning/test_pytorch_gradients.py"),
        _suite("bfloat16", "unit/bfloat16/test_bfloat16.py"),
    ),
}
