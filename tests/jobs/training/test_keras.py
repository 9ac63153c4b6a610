"""horovod.keras and horovod.tensorflow.keras with Keras 3, and with Keras 2 in its place.

One job of two ranks for each; every test looks at a part of what it reported.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from jobs import elastic, run_job

KERAS_2, KERAS_3 = "2", "3"
BOTH = (KERAS_3, KERAS_2)
OPTIMIZERS_2 = ("SGD", "Adam", "RMSprop", "clipped", "schedule")
OPTIMIZERS_3 = (*OPTIMIZERS_2, "AdamW", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl", "Lion",
                "Adafactor", "Lamb", "averaged", "accumulated")
STEPS = (
    "fp16", "bf16", "predivided", "one group", "two groups", "groups", "sum", "process set",
    "local, scaled", "local, unscaled", "passes, added", "passes, averaged", "passes, graph",
    "sparse", "sparse, as dense", "sparse, group", "sparse, passes",
    "partial optimizer", "partial tape", "tape", "partial optimizer, added",
    "partial optimizer, averaged", "elastic optimizer of tf.compat.v1", "elastic passes, eager",
    "elastic passes, graph",
    *(f"elastic tape, {dtype}, {kind}" for dtype in ("float16", "bfloat16", "float32", "float64")
      for kind in ("eager", "graph")),
    "allreduce", "allreduce fp16", "allreduce bf16", "broadcast, inplace=False",
    "broadcast, inplace=True", "keras.allreduce", "keras.allgather",
)
STEPS_3 = ("missing, 1", "missing, 2", "loss scale inside", "loss scale outside")


@pytest.fixture
def reports(shared_job):
    """By rank, what the job with one of the two Kerases reported."""

    def reports(version: str) -> list[dict]:
        legacy = {"TF_USE_LEGACY_KERAS": "1"} if version == KERAS_2 else {}
        job = shared_job("keras_job", framework="tensorflow", **legacy).expect_success()
        return list(job.reports().values())

    return reports


def assert_close(actual: list | float, expected: list | float, tolerance: float = 1e-5) -> None:
    if isinstance(expected, list):
        assert len(actual) == len(expected)
        for part, expected_part in zip(actual, expected):
            assert_close(part, expected_part, tolerance)
    else:
        assert actual == pytest.approx(expected, rel=tolerance, abs=tolerance)


# Optimizers


@pytest.mark.parametrize("version, name", [
    *((KERAS_3, name) for name in (*OPTIMIZERS_3, *STEPS, *STEPS_3, "SGD, compute_gradients")),
    *((KERAS_2, f"{name}, compute_gradients") for name in OPTIMIZERS_2),
    *((KERAS_2, name) for name in STEPS),
])
def test_does_what_one_process_does_with_reduced_gradients(reports, version, name):
    for report in reports(version):
        actual, expected = report["optimizers"]["pairs"][name]
        assert_close(actual, expected)


@pytest.mark.parametrize("version", BOTH)
def test_every_optimizer_moves_the_weights(reports, version):
    for report in reports(version):
        for name, (actual, _) in report["optimizers"]["pairs"].items():
            if name.partition(",")[0] in OPTIMIZERS_3:
                moved = [np.abs(np.subtract(weights, 1.0)).max() for weights in actual]
                assert min(moved) > 1e-4, name


@pytest.mark.parametrize("version", BOTH)
def test_compressed_to_16_bits(reports, version):
    """Less than the smallest number of 16 bits becomes zero."""
    assert [report["optimizers"]["values"]["tiny in 16 bits"] for report in reports(version)] == [
        0.0, 0.0]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("kind", ["added", "averaged"])
def test_iterations_count_every_pass(reports, version, kind):
    for report in reports(version):
        assert report["optimizers"]["values"][f"passes, {kind}"] == [5, 1]


@pytest.mark.parametrize("kind", ["class", "argument", ""])
def test_methods_and_arguments_do_what_they_do_without_horovod(reports, kind):
    """workers/keras/keras_methods.py: each program with hvd.DistributedOptimizer and without."""
    for report in reports(KERAS_3):
        programs = {name: difference for name, difference in report["methods"]["programs"].items()
                    if name.startswith(kind)}
        assert len(programs) >= 14
        assert {name: difference for name, difference in programs.items() if difference} == {}


def test_every_method_and_argument_is_tried(reports):
    for report in reports(KERAS_3):
        assert report["methods"]["missed"] == []


@pytest.mark.parametrize("name, why", {
    "twice": "the optimizer is one already",
    "twice, scaled": "the optimizer is one already",
    "used": "another one has been made of this optimizer",
    "accumulated": "backward_passes_per_step=2) of an optimizer with gradient_accumulation_steps=2",
    "averaged": "backward_passes_per_step=2) of an optimizer with ema_overwrite_frequency=3",
}.items())
def test_says_why_not(reports, name, why):
    for report in reports(KERAS_3):
        error = report["methods"]["errors"][name]
        assert error.startswith("ValueError: hvd.DistributedOptimizer") and why in error


# fit()


@pytest.mark.parametrize("version", BOTH)
def test_fit_with_all_callbacks(reports, version):
    for report in reports(version):
        part = report["fit"]["callbacks"]
        assert_close(part["weights"], part["expected weights"])
        assert_close(part["rates"], part["expected rates"])
        steps = len(part["rates"]) // len(part["logged rates"])
        assert part["logged rates"] == part["rates"][steps - 1::steps]


@pytest.mark.parametrize("version", BOTH)
def test_metrics_are_averaged_for_the_callbacks_that_follow(reports, version):
    before, after, history = zip(*(r["fit"]["callbacks"]["losses"] for r in reports(version)))
    assert np.abs(np.subtract(*before)).min() > 1e-3
    for averaged in (*after, *history):
        np.testing.assert_allclose(averaged, np.mean(before, axis=0), rtol=1e-5)


@pytest.mark.parametrize("version", BOTH)
def test_local_variables_are_not_broadcast(reports, version):
    weights = [report["fit"]["local_variables"]["weights"] for report in reports(version)]
    assert weights == [[2.0, 2.0, 1.0], [2.0, 2.0, 2.0]]


@pytest.mark.parametrize("version", BOTH)
def test_fit_with_several_passes_for_a_step(reports, version):
    for report in reports(version):
        part = report["fit"]["passes"]
        assert_close(part["weights"], part["expected"])


def test_best_model_is_kept(reports, shared_job):
    reports(KERAS_3)
    folder = shared_job("keras_job", framework="tensorflow").folder
    assert {path.name for path in folder.glob("best-*")} == {"best-0.keras", "best-1.keras"}


def test_a_model_in_bfloat16(reports):
    first, *others = (report["fit"]["in_bfloat16"] for report in reports(KERAS_3))
    assert set(first["types"]) == {"bfloat16"} and first["moved"]
    assert others == [first]


def test_mixed_precision_skips_a_step_on_all_ranks(reports):
    for report in reports(KERAS_3):
        part = report["fit"]["mixed_precision"]
        assert part["kind"] == "LossScaleOptimizer"
        assert [step["moved"] for step in part["steps"]] == [True, False, True]
        first, second, third = (step["scale"] for step in part["steps"])
        assert first == 2 * second == 2 * third


def test_xla_is_not_asked_to_compile_reductions(reports):
    for report in reports(KERAS_3):
        part = report["fit"]["compilation"]
        assert part["compiled"] == {"plain": True, "distributed": False, "scaled": False}
        assert "ValueError: XLA cannot compile Horovod's operations" in part["error"]
        assert "jit_compile=False" in part["error"]


# Saved and loaded


@pytest.mark.parametrize("version, name", [
    *((KERAS_3, f"{name}.{suffix}") for name in ("Adam", "custom", "scaled")
      for suffix in ("keras", "h5")),
    (KERAS_2, "Adam.h5"), (KERAS_2, "custom.h5"),
])
def test_loaded_model_goes_on_where_it_was(reports, version, name):
    for report in reports(version):
        part = report["state"]["saved_and_loaded"][name]
        assert_close(part["loaded"], part["before"])
        assert part["rate"] == 0.25
        assert_close(part["after"], part["expected"])
        assert part["reduces"] == [True, False]
        assert part["plain"], "without Horovod it is the optimizer that it was"


@pytest.mark.parametrize("version", BOTH)
def test_loaded_models_stay_equal_on_all_ranks(reports, version):
    for parts in zip(*(r["state"]["saved_and_loaded"].values() for r in reports(version))):
        assert_close(parts[0]["after"], parts[1]["after"])


# Elastic state


@pytest.mark.parametrize("version", BOTH)
def test_elastic_state(reports, version):
    first, second = (report["state"]["elastic_state"] for report in reports(version))
    for part in first, second:
        assert_close(part["restored"], part["created"])
        assert_close(part["synced"][0], first["committed"][0])
        assert part["synced"][1:] == [20, 0]
        assert part["after failure"] == part["synced"]
        assert part["losses"] == [0]
    weights = [np.concatenate(committed[0][0]) for committed in first["committed"]]
    assert np.abs(weights[0] - weights[1]).max() > 0.5


@pytest.mark.parametrize("version", BOTH)
def test_elastic_callbacks(reports, version):
    """After each batch and each epoch: epoch, batch, saved states."""
    for report in reports(version):
        assert report["state"]["elastic_callbacks"] == [
            [4, 0, 0], [4, 1, 1], [4, 2, 1], [5, 0, 2],
            [5, 0, 3], [5, 1, 3], [5, 2, 4], [6, 0, 5]]


# Synchronized batch normalization


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("what", ["outputs", "gradients", "moving", "inference"])
def test_batch_normalization_over_all_ranks(reports, version, what):
    for report in reports(version):
        actual, expected = report["state"]["batch_normalization"][what]
        assert_close(actual, expected, 1e-4)


@pytest.mark.parametrize("version", BOTH)
def test_batch_normalization_is_not_fused(reports, version):
    for report in reports(version):
        assert "fused=True" in report["state"]["batch_normalization"]["fused"]


def test_batch_normalization_is_loaded_by_keras(reports):
    for report in reports(KERAS_3):
        part = report["state"]["batch_normalization"]
        assert_close(*part["loaded"])
        assert part["kinds"][:2] == ["SyncBatchNormalization"] * 2
        assert part["names"] == 3


# Other backends


def test_other_backends_are_refused(need):
    need("tensorflow", "torch")
    script = """
for module in "horovod.keras", "horovod.tensorflow.keras":
    try:
        __import__(module)
    except ImportError as error:
        print(error)
"""
    result = subprocess.run([sys.executable, "-c", script], check=True, text=True,
                            stdout=subprocess.PIPE, env={**os.environ, "KERAS_BACKEND": "torch"})
    first, second = result.stdout.splitlines()
    assert first.startswith("horovod.keras needs the TensorFlow backend")
    assert second.startswith("horovod.tensorflow.keras needs the TensorFlow backend")
    assert all("set KERAS_BACKEND=tensorflow" in line for line in (first, second))


# Elastic training


def test_fit_resumes_after_a_death(need, tmp_path):
    """A new worker, whose optimizer has done no step, goes on from the last committed epoch."""
    need("tensorflow", "gloo")
    options = elastic(tmp_path, "localhost:1\n127.0.0.1:1\n127.1:1\n")
    run_job(tmp_path, "keras_elastic", controller="gloo", options=options).expect_success()
    died, replaced, lived = sorted(
        (path.read_text().splitlines() for path in tmp_path.glob("notes.*")), key=len
    )
    first, again = (f"starts at epoch {epoch}, iteration {iteration} with 2 ranks"
                    for epoch, iteration in ((0, 0), (2, 6)))
    assert died == [first]
    assert lived[:-1] == [first, again]
    assert replaced[:-1] == [again]
    assert lived[-1].startswith("ends with 12, ")
    assert replaced[-1] == lived[-1]
