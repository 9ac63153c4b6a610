"""Who waits for ranks that do not come says which these are."""

from __future__ import annotations

import pytest
from data_sets import tfrecord
from gloo_ranks import GlooRanks
from jobs import rank_lines, run_job

RECORDS = 60
CALLS = {"open": "opens ", "make": "makes a loader of ", "loop": "begins a loop over a loader of ",
         "holes": "calls gather_holes()"}


JOBS = [(launcher, controller, ranks) for ranks in (2, 3) for launcher, controller in (
    ("horovod", "gloo"), ("horovod", "mpi"), ("tensorflow", "gloo"), ("tensorflow", "mpi"),
    ("gloo", ""))]
QUICK = [("horovod", "gloo", 3), ("tensorflow", "mpi", 2), ("gloo", "", 3)]


@pytest.mark.parametrize("launcher, controller, ranks", [
    *QUICK, *(pytest.param(*job, marks=pytest.mark.slow) for job in JOBS if job not in QUICK)])
def test_the_rank_that_is_missing_is_named(tmp_path, need, launcher, controller, ranks):
    """While opening, making a loader, beginning a loop, within it, and in other calls of all."""
    need("tensorflow" if launcher == "tensorflow" else "torch")
    path = tfrecord(tmp_path / "a.tfrecord", [bytes([i]) * 40_000 for i in range(RECORDS)])
    if controller:
        run_job(tmp_path, "input_waits", launcher, path, ranks=ranks,
                controller=controller).expect_success()
    else:
        ends = GlooRanks(tmp_path, "input_waits", launcher, path, ranks=ranks).wait()
        assert [end.code for end in ends] == [0] * ranks, [end.errors for end in ends]
    lines = rank_lines(tmp_path, ranks)
    assert [rank[-1] for rank in lines] == [{"steps": RECORDS // ranks}] * ranks
    said = [line for rank in lines for line in rank[:-1]]
    last = ranks - 1
    for place, what in CALLS.items():
        texts = [line["text"] for line in said if line["place"] == place]
        assert any(text.startswith(f"rank 0 of {ranks} has waited for 2 s for rank {last}, as it "
                                   f"{what}") for text in texts), texts
    behind = [line["text"] for line in said if line["place"] == "behind"]
    assert any(f"rank {last} is " in text and "steps behind" in text for text in behind), behind
