"""Mode topo: the threads hvd-planned of several ranks are on cores of their own, as far as there
are any; no other thread is touched."""

from __future__ import annotations

import pytest

RANKS = (2, 3)
EACH = [(controller, ranks) for controller in ("mpi", "gloo") for ranks in RANKS]

each_job = pytest.mark.parametrize("controller, ranks", EACH)


@pytest.fixture
def reports(shared_job):
    def reports(controller: str, ranks: int) -> list[dict]:
        job = shared_job("planned_cpus", controller=controller, ranks=ranks)
        return job.expect_success().of_ranks(ranks)

    return reports


@each_job
def test_each_rank_has_its_share(reports, controller, ranks):
    masks = reports(controller, ranks)
    cpus = masks[0]["given"]
    shares = []
    for number, rank_masks in enumerate(masks):
        threads = rank_masks["topo"]["planned"]
        assert len(threads) == (2 if number < 2 < ranks else 1)  # one of the process set
        assert all(thread == threads[0] for thread in threads)
        shares.append(threads[0])
    assert set().union(*shares) <= set(cpus)
    if len(cpus) < 2:
        pytest.skip("one CPU cannot be shared")
    assert shares[0] != shares[1]
    assert not set(shares[0]) & set(shares[1])


@each_job
@pytest.mark.parametrize("mode", ["off", "topo"])
def test_other_threads_run_where_they_may(reports, controller, ranks, mode):
    for masks in reports(controller, ranks):
        assert masks[mode]["others"]
        assert all(thread == masks["given"] for thread in masks[mode]["others"])


@each_job
def test_a_rank_that_is_bound_stays_so(reports, controller, ranks):
    for number, masks in enumerate(reports(controller, ranks)):
        own = [masks["given"][number % len(masks["given"])]]
        assert masks["bound"]["planned"]
        assert all(thread == own for thread in masks["bound"]["planned"])
