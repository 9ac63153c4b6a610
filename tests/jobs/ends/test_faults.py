"""What happens when something goes wrong on one rank: the rows of docs/use/faults.md.

Whatever it is, no process is left behind, and the last checkpoint is whole.
"""

from __future__ import annotations

import pytest
from assertions import assert_intact
from jobs import mode_settings
from selection import by_hand, rest_by_hand

NODES = "topo@1"  # as if each rank had a node of its own
MODES = ("off", "gs+nbcs", "topo", NODES)
ALL_MODES = ("off", "gs", "nbcs", "gs+nbcs", "topo", NODES)
PLANNED_MODES = ("topo", NODES)
PLANNED = pytest.mark.parametrize("mode", PLANNED_MODES)
CONTROLLERS = ("mpi", "gloo")
SHUT_DOWN = "HorovodInternalError: Horovod has been shut down"
MISMATCH = "HorovodInternalError: Mismatched"

each_controller = pytest.mark.parametrize("controller", CONTROLLERS)
each_mode = pytest.mark.parametrize("mode", MODES)


# Faults that leave the rank alive


@pytest.fixture
def together(shared_job):
    def together(controller: str):
        return shared_job("fault_together", *MODES, controller=controller).expect_success()

    return together


def outcomes(job, name: str) -> list[dict]:
    """Of both ranks."""
    return [report[name] for report in job.of_ranks(2)]


@each_mode
@each_controller
def test_stopped_for_five_seconds(together, controller, mode):
    """Nothing but time is lost."""
    job = together(controller)
    undisturbed, = {outcome["weights"] for outcome in outcomes(job, "off nothing")}
    for outcome in outcomes(job, f"{mode} stopped"):
        assert outcome["error"] == ""
        assert outcome["weights"] == undisturbed
    assert_intact(job, f"{mode} stopped", step=20)


@each_mode
@each_controller
@pytest.mark.parametrize("fault, own", [
    ("raises", "KeyError: 'a bug in the training script'"), ("memory", "MemoryError"),
])
def test_raises_and_shuts_down(together, controller, mode, fault, own):
    job = together(controller)
    *others, culprit = outcomes(job, f"{mode} {fault}")
    assert culprit["error"].startswith(own)
    for outcome in others:
        assert outcome["error"].startswith(SHUT_DOWN)
    assert_intact(job, f"{mode} {fault}")


@each_mode
@each_controller
@pytest.mark.parametrize("fault, what, values", [
    ("shape", "ALLREDUCE tensor shapes", ("shape [],", "shape [2],")),
    ("type", "data types", ("float32", "float64")),
])
def test_sends_something_else(together, controller, mode, fault, what, values):
    job = together(controller)
    for outcome in outcomes(job, f"{mode} {fault}"):
        assert outcome["error"].startswith(f"{MISMATCH} {what}")
        for value in values:
            assert value in outcome["error"].replace(".", ",")
    assert_intact(job, f"{mode} {fault}")


@each_mode
@each_controller
def test_has_another_model(together, controller, mode):
    for outcome in outcomes(together(controller), f"{mode} model"):
        assert outcome["step"] == 0
        assert outcome["error"].startswith(f"{MISMATCH} ALLREDUCE tensor shapes")


@each_mode
@each_controller
def test_calls_what_the_others_never_call(together, controller, mode):
    """With HOROVOD_STALL_SHUTDOWN_TIME_SECONDS, which is not set by default."""
    job = together(controller)
    *others, culprit = outcomes(job, f"{mode} alone")
    assert culprit["error"].startswith(SHUT_DOWN)
    for outcome in others:  # in topo, who wait for the step in which the last rank waits for them
        told = "Horovod: a step of" if mode in PLANNED_MODES else "Horovod has been shut down"
        assert outcome["error"].startswith(f"HorovodInternalError: {told}")
    assert "0: [allreduce.alone]" in job.output
    assert_intact(job, f"{mode} alone")


@PLANNED
@each_controller
@pytest.mark.parametrize("fault, iterations", [
    ("stopped", 18), ("raises", 12), ("memory", 12), ("shape", 13), ("type", 13),
])
def test_topo_had_planned_the_gradients(together, controller, mode, fault, iterations):
    """Of 20 steps two are negotiated. Of the 15th, the gradients did not arrive, or they did and
    another loss was sent."""
    for outcome in outcomes(together(controller), f"{mode} {fault}"):
        assert outcome["states"] == ["active"]
        assert outcome["planned"] == [[f"allreduce.{layer}.{part}" for layer in (0, 2)
                                       for part in ("bias", "weight")]]
        assert outcome["iterations"] == [iterations]


@each_mode
@each_controller
def test_raises_in_a_callback(shared_job, controller, mode):
    job = shared_job("fault_keras", *MODES, framework="tensorflow", controller=controller)
    first, last = outcomes(job.expect_success(), mode)
    assert last["error"] == "KeyError: 'a bug in a callback'"
    assert "Horovod has been shut down" in first["error"]
    assert len(first["saves"]) == 3
    assert first["found"] == first["saves"][-1]


@pytest.mark.parametrize("mode", ["off", "topo", NODES])
@each_controller
def test_raises_in_a_graph(shared_job, controller, mode):
    """While TensorFlow waits for another tensor of the same step, and bucket."""
    job = shared_job("raises_in_graph", "off", "topo", NODES, framework="tensorflow",
                     controller=controller)
    *others, culprit = outcomes(job.expect_success(), mode)
    for outcome in (*others, culprit):
        assert (outcome["right"], outcome["step"]) == (True, 8)
    assert "a bug in the graph" in culprit["error"]
    told = "Horovod has been shut down" if mode == "off" else "rank 1 has left it without 'late'."
    for outcome in others:
        assert told in outcome["error"]
    if mode != "off":
        (_, reason, buckets), = culprit["plans"]
        assert [sorted(bucket) for bucket in buckets] == [["early", "late"]]
        assert "abandoned" in reason


@pytest.mark.parametrize("mode", ALL_MODES)
@each_controller
def test_shuts_down_early(shared_job, controller, mode):
    job = shared_job("shutdowns", " ".join(ALL_MODES), "early", ranks=3,
                     controller=controller).expect_success()
    first, *others = (report[f"{mode} early"]["error"] for report in job.reports().values())
    assert first == ""
    for error in others:
        assert error.startswith(SHUT_DOWN)


# Faults that end the rank


ENDS = ("kill", "exit", "raise")
EACH_TIME = {("mpi", "topo", "kill"), ("gloo", "topo", "kill"), ("mpi", "topo", "raise"),
             ("gloo", "topo", "exit"), ("gloo", NODES, "kill"), ("mpi", NODES, "exit"),
             ("gloo", NODES, "raise")}


# What the docs say of mode off, and of what is between off and topo, is run by hand.
@pytest.mark.parametrize("controller, mode, how", rest_by_hand([
    (controller, mode, how) for controller in CONTROLLERS for mode, how in (
        *((mode, how) for mode in ("off", "topo", NODES) for how in ENDS),
        ("gs", "kill"), ("nbcs", "kill"))], lambda *row: row in EACH_TIME))
def test_a_rank_ends(job, controller, mode, how):
    """Three ranks, so that there are others to talk to."""
    result = job("fault_ends", how, ranks=3, controller=controller, started=True,
                 **mode_settings(mode))
    assert not result.hung, result.output
    assert result.code != 0
    assert not result.survivors
    errors = [report["error"] for rank, report in result.reports().items() if rank < 2]
    assert all(error.startswith("HorovodInternalError") for error in errors), errors
    if (controller, how) != ("mpi", "kill"):  # there mpirun ends those that wait inside MPI
        assert len(errors) == 2
    assert_intact(result, how)


@pytest.mark.parametrize("controller, mode, how", [
    *((controller, "topo", how) for controller in CONTROLLERS
      for how in ("kill horovodrun", "end horovodrun")),
    *(by_hand(controller, "off", "kill horovodrun") for controller in CONTROLLERS),
])
def test_the_launcher_ends(job, controller, mode, how):
    result = job("fault_ends", how, controller=controller, started=True, **mode_settings(mode))
    assert not result.hung, result.output
    assert result.code != 0
    assert not result.survivors
    assert_intact(result, how, step=None)
