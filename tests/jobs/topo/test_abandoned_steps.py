"""A step of PyTorch's optimizer that ranks leave before its end: by an exception that the script
catches, or a batch that is left out."""

from __future__ import annotations

import pytest

MODES = ("off", "topo", "topo@1")
PLANNED = MODES[1:]
ALL_LEAVE = ("exception", "in the first step", "in the second step", "batch left out",
             "same optimizer", "synchronized")
ONE_LEAVES = ("one goes on", "one goes on with the same optimizer", "one stays away")

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
def test_all_ranks_hear_who_has_left_without_what(reports, mode, case):
    *others, last = (report[f"{mode} {case}"]["errors"] for report in reports)
    texts = {error for (error,) in others} | set(last[1:])
    (text,) = texts
    assert f"abandoned: rank {len(reports) - 1} has left it without '" in text
    assert "allreduce.1.0.weight" in text or "more tensors" in text
    assert last[0] == "left" and len(last) == (1 if case == "one stays away" else 2)


@each_planned_mode
def test_plans_are_active_again(reports, mode):
    for report in reports:
        for case in ("nothing", *ALL_LEAVE, "at different layers", *ONE_LEAVES):
            assert report[f"{mode} {case}"]["states"] == ["active"], case
