"""A step of PyTorch's optimizer that ranks leave before its end: by an exception that the script
catches, or a batch that is left out."""

from __future__ import annotations

import pytest

MODES = ("off", "topo", "topo@1", "topo/operations", "topo@1/operations")
PLANNED = MODES[1:]
ALL_LEAVE = ("exception", "in the first step", "in the second step", "batch left out",
             "same optimizer", "synchronized", "again in the first step", "again")
ONE_LEAVES = ("one goes on", "one goes on with the same optimizer", "one waits elsewhere")

each_planned_mode = pytest.mark.parametrize("mode", PLANNED)


@pytest.fixture(params=["mpi-3", "gloo-2"])
def reports(request, shared_job) -> list[dict]:
    controller, ranks = request.param[:-2], int(request.param[-1])
    job = shared_job("abandoned_steps", *MODES, controller=controller, ranks=ranks)
    return job.expect_success().of_ranks(ranks)


def assert_same_weights(reports: list[dict], case: str, other: str) -> None:
    digest, = {report[case]["digest"] for report in reports}
    if len(reports) == 2:
        assert digest == reports[0][other]["digest"]
    else:  # three numbers have not one sum in every order
        assert reports[0][case]["sums"] == pytest.approx(reports[0][other]["sums"], rel=1e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", ALL_LEAVE)
def test_trainings_after_it_are_as_in_off(reports, mode, case):
    assert_same_weights(reports, f"{mode} {case}", f"off {case}")
    if case != "synchronized":
        assert_same_weights(reports, f"{mode} {case}", "off nothing")
    for report in reports:
        assert report[f"{mode} {case}"]["errors"] in (["left"], [])


@each_planned_mode
@pytest.mark.parametrize("case", ("at different layers", *ONE_LEAVES))
def test_what_would_stop_off_does_not_stop_topo(reports, mode, case):
    assert_same_weights(reports, f"{mode} {case}", "off nothing")


@each_planned_mode
@pytest.mark.parametrize("case", ONE_LEAVES)
def test_ranks_that_wait_hear_who_has_left_without_what(reports, mode, case):
    *others, last = (report[f"{mode} {case}"]["errors"] for report in reports)
    assert last == ["left"]
    (text,) = {error for (error,) in others}
    assert f"abandoned: rank {len(reports) - 1} has left it without 'allreduce.1." in text


@each_planned_mode
def test_plans_are_active_again(reports, mode):
    for report in reports:
        for case in ("nothing", *ALL_LEAVE, "at different layers", *ONE_LEAVES):
            assert report[f"{mode} {case}"]["states"] == ["active"], case


# Steps of a function of TensorFlow.
@pytest.fixture(params=["mpi-3", "gloo-2"])
def of_functions(request, shared_job) -> list[dict]:
    controller, ranks = request.param[:-2], int(request.param[-1])
    job = shared_job("abandoned_functions", *MODES, framework="tensorflow", controller=controller,
                     ranks=ranks)
    return job.expect_success().of_ranks(ranks)


@pytest.mark.parametrize("case", [f"{mode} all fail {function}" for mode in MODES
                                  for function in ("chain", "fork")
                                  if (mode, function) != ("off", "fork")])
def test_all_ranks_go_on_after_steps_that_all_fail(of_functions, case):
    for report in of_functions:
        assert report[case]["wrong"] == []
        assert len(report[case]["errors"]) == 2
        if not case.startswith("off"):
            assert report[case]["states"] == ["active"]


@each_planned_mode
@pytest.mark.parametrize("function", ["chain", "fork"])
def test_ranks_that_wait_for_a_failed_step_hear_of_it(of_functions, mode, function):
    *others, last = (report[f"{mode} one fails {function}"] for report in of_functions)
    missing = f"rank {len(of_functions) - 1} has left it without '"
    assert len(last["errors"]) == 2
    for outcome in others:
        assert len(outcome["errors"]) == 2
        assert all(missing in error for error in outcome["errors"])
    for outcome in (*others, last):
        assert outcome["wrong"] == []
        assert outcome["states"] == ["active"]
