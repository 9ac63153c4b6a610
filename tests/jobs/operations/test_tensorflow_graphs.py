"""What TensorFlow makes of Horovod's operations in a graph: its optimizer leaves collectives of
constants to each step, XLA refuses to compile them and says what to do, and a sum takes the place
of its tensor.

torch.compile is among the programs of test_programs.py, Keras's jit_compile in test_keras.py.
"""

from __future__ import annotations

import pytest

MODES = ("off", "topo")
CALLS = 6


@pytest.mark.parametrize("controller, mode", [("mpi", "off"), ("mpi", "topo"), ("gloo", "topo")])
def test_collectives_of_constants(job, controller, mode):
    result = job("constants", framework="tensorflow", controller=controller,
                 HOROVOD_OPT_MODE=mode).expect_success()
    for report in result.of_ranks(2):
        assert report["sums"] == [[3.0, 4.0]] * CALLS
        assert report["steps"] == CALLS
        assert report["mixed"] == [[5.0 + call] for call in range(CALLS)]
        assert report["loops"] == [[60.0]] * CALLS
        assert report["gathered"] == [[[0, 1, 0, 1, 2]] * 8] * CALLS
        assert report["plans"] == (["active"] * 2 if mode == "topo" else [])
        assert report["halves"] == [[[2.0 * call + 1] * 3, [4.0 * call + 2] * 3]
                                    for call in range(4 * CALLS)]


@pytest.fixture(params=MODES)
def reports(request, shared_job):
    job = shared_job("compiled_by_xla", framework="tensorflow", HOROVOD_OPT_MODE=request.param)
    return request.param, job.expect_success().of_ranks(2)


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


@pytest.mark.parametrize("controller, mode, settings", [
    ("mpi", "off", {}),
    ("mpi", "topo", {}),
    ("gloo", "topo", {"HOROVOD_OPT_NODE_RANKS": "1"}),
    ("gloo", "topo", {"HOROVOD_OPT_SHARED_MEMORY": "0"}),
], ids=["off", "node", "nodes", "operations"])
def test_a_sum_in_place_of_its_tensor(job, controller, mode, settings):
    """In mode topo, if nobody else reads the tensor."""
    result = job("result_memory", framework="tensorflow", controller=controller,
                 HOROVOD_OPT_MODE=mode, **settings).expect_success()
    for report in result.of_ranks(2):
        assert report["right"] == [True] * 24
        assert report["in_place"] == [mode == "topo"] * 12
        assert report["plans"] == (["active"] * 3 if mode == "topo" else [])
