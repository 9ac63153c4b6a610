"""Tensors that would wait for each other forever: one error on all ranks, the same, that names them
and says who waits for what, after about HOROVOD_STALL_CHECK_TIME_SECONDS. The job goes on."""

from __future__ import annotations

import re

import pytest

SPARSE = (r"Mismatched tensors, for which the ranks would wait forever: ranks? [^:]*: ALLREDUCE of "
          r"float32 \[20, 3\] '[^']*'; rank {last}: ALLGATHER of .*ALLGATHER of ")
SETS = (r"Mismatched tensors, .*: ranks? [^:]*: ALLREDUCE of float32 \[6\] '[^']*{name} x' in "
        r"process set 0; rank {last}: ALLREDUCE of float32 \[6\] '[^']*{name} x' in process "
        r"set 1\. Call it ")


def reports(job, ranks: int) -> list[dict]:
    by_rank = job.expect_success().reports()
    assert list(by_rank) == list(range(ranks))
    return list(by_rank.values())


def the_error(texts: list[str]) -> str:
    """The one that all ranks have, however their framework begins it."""
    errors = {text[max(text.find("Mismatched"), 0):].partition("\n")[0].partition(" [Op:")[0]
              for text in texts}
    (error,) = errors
    return error


@pytest.fixture(params=["mpi-3", "gloo-4"])
def torch_reports(request, shared_job):
    controller, ranks = request.param[:-2], int(request.param[-1])
    return reports(shared_job("contradictions", controller=controller, ranks=ranks), ranks)


@pytest.mark.parametrize("when, name", [("first", "new"), ("planned", "known")])
def test_a_name_in_two_process_sets(torch_reports, when, name):
    error = the_error([report["errors"][when]["sets"] for report in torch_reports])
    assert re.search(SETS.format(name=name, last=len(torch_reports) - 1), error)


@pytest.mark.parametrize("when", ["first", "planned"])
def test_a_gradient_that_is_sparse_on_one_rank(torch_reports, when):
    error = the_error([report["errors"][when]["sparse on one"] for report in torch_reports])
    assert re.search(SPARSE.format(last=len(torch_reports) - 1), error)


def test_the_job_goes_on_at_once(torch_reports):
    assert [report["wrong"] for report in torch_reports] == [[]] * len(torch_reports)


@pytest.mark.parametrize("controller, ranks", [("mpi", 3), ("gloo", 2)])
def test_a_function_of_tensorflow(shared_job, controller, ranks):
    job = shared_job("sparse_on_one", framework="tensorflow", controller=controller, ranks=ranks)
    of_ranks = reports(job, ranks)
    assert [report["wrong"] for report in of_ranks] == [[]] * ranks
    error = the_error([report["errors"]["dense before"] for report in of_ranks])
    assert re.search(SPARSE.format(last=ranks - 1), error)
