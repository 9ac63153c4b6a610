"""What compilers do with Horovod's operations: XLA cannot compile them, and says what to do.

torch.compile is among the programs of test_programs.py, Keras's jit_compile in test_keras.py.
"""

from __future__ import annotations

import pytest

MODES = ("off", "topo")


@pytest.fixture(params=MODES)
def reports(request, shared_job):
    job = shared_job("compiled_by_xla", framework="tensorflow", HOROVOD_OPT_MODE=request.param)
    return request.param, job.succeeded().of_each(2)


def test_an_operation_that_xla_cannot_compile_is_refused_with_the_remedy(reports):
    for report in reports[1]:
        assert len(report["refused"]) == 8
        for name, error in report["refused"].items():
            assert error.startswith("ValueError: ")
            assert f"XLA cannot compile Horovod's operations here (horovod_{name}): call it " \
                   "outside of the function with jit_compile=True" in error
            assert ("HOROVOD_ENABLE_XLA_OPS=1" in error) == (name == "allreduce")


def test_within_a_branch_as_well(reports):
    for report in reports[1]:
        assert "XLA cannot compile Horovod's operations here" in report["branch"]


def test_what_xla_compiles_before_and_after_an_operation_is_trained_and_planned(reports):
    mode, of_ranks = reports
    for report in of_ranks:
        trained = report["trained"]
        assert trained["weights"] == pytest.approx(trained["expected"], rel=1e-12)
        assert (trained["planned"] > 0) == (mode == "topo")
