"""`horovod-opt doctor --pid` in jobs in which a rank is late: the tensor, who has not called it,
since when; also with Python's lock held, a rank stopped, a child forked, and Horovod shut down."""

from __future__ import annotations

import re

import pytest

MODES = {"mpi": ("off", "topo", "topo@1"), "gloo": ("topo@1", "topo", "nbcs+gs")}
EACH = [(controller, mode) for controller, modes in MODES.items() for mode in modes]
CHECKS = pytest.mark.parametrize("controller, mode", EACH)


@pytest.fixture
def asked(shared_job):
    """What rank 1 was told, by question; and the ranks' processes."""

    def asked(controller: str, mode: str) -> tuple[dict[str, dict], list[int]]:
        job = shared_job("doctor_asks", *MODES[controller], controller=controller)
        _, late = job.expect_success().of_ranks(2)
        return late["answers"][mode], late["pids"]

    return asked


def conclusions(answer: dict) -> list[str]:
    assert answer["problems"] == []
    (job,) = answer["jobs"]
    # On a busy machine a thread may be off its core for 200 ms, with a lock.
    return [line for line in job["conclusions"] if "has held the lock of" not in line]


@CHECKS
@pytest.mark.parametrize("question", ["new", "again", "lock"])
def test_names_the_tensor_the_missing_rank_and_how_long(asked, controller, mode, question):
    answers, pids = asked(controller, mode)
    found = conclusions(answers[question])
    assert len(found) == 2, found
    first, second = found
    name = re.escape(f"allreduce.{mode}.{question}")
    assert re.fullmatch(rf"Rank 0 waits for '{name}' \(\d+\.\d s\), which rank 1 has not called\.",
                        first)
    assert second.startswith("Rank 1 waits for nothing in Horovod: its script does something else")
    ranks = answers[question]["jobs"][0]["ranks"]
    assert [(rank["rank"], rank["size"], rank["pid"]) for rank in ranks] == [
        (0, 2, pids[0]), (1, 2, pids[1])]
    assert {rank["controller"] for rank in ranks} == {controller}
    assert {rank["framework"] for rank in ranks} == {"torch"}


@CHECKS
def test_says_where_the_tensor_waits(asked, controller, mode):
    first = asked(controller, mode)[0]["again"]["jobs"][0]["ranks"][0]
    page = "\n".join(first["page"])
    if not mode.startswith("topo"):
        assert f"allreduce 'allreduce.{mode}.again' for " in page
        assert "background thread: " in page
        return
    # Its last round may still end.
    assert re.search(r"background thread: (waits for round|in round) \d+", page), page
    (wait,) = first["waits"]
    assert (wait["kind"], wait["name"]) == ("complete", f"allreduce.{mode}.again")
    if mode == "topo@1":
        assert "its peers are of group 1 rank 1" in page
        assert re.search(r"between nodes, under way: 1\n +bucket \d+: allreduce of 16 bytes over 2 "
                         r"groups, 0 of 1 chunk done\n.*WAITS for \d+ bytes from group 1", page)
    else:
        assert "1 of the 2 ranks that share memory have it" in page
        assert re.search(r"ready queue: (\d+) entries, the thread has read \1\n", page)
        assert "thread hvd-planned: waits for the next entry of the ready queue" in page


@CHECKS
def test_a_rank_that_is_stopped(asked, controller, mode):
    answers, pids = asked(controller, mode)
    # A rank that a fork server has forked has not been told its number when it was started.
    said = rf"(Rank 0|Process {pids[0]}) says nothing: it is stopped; kill -CONT {pids[0]} lets "
    assert re.search(said, str(answers["stopped"]))


@CHECKS
@pytest.mark.parametrize("question", ["child", "over"])
def test_what_is_no_rank_any_more(asked, controller, mode, question):
    answers, _ = asked(controller, mode)
    (problem,) = answers[question]["problems"]
    assert "is no rank and has started none on this host" in problem
    assert answers[question]["jobs"] == []
