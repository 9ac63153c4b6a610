"""What one rank cannot do, none does."""

from __future__ import annotations

import threading

import pytest
from events import MINUTE
from thread_ranks import on_ranks

from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.job.agreement import (
    Abandoned,
    require_agreement,
    require_equal,
    run_together,
)
from horovod_opt.io.job.communication import ALONE


@pytest.mark.parametrize("size", [1, 2, 3])
def test_results_are_those_of_each_rank(size):
    assert on_ranks(size, lambda ranks: run_together(ranks, lambda: 10 * ranks.rank)) == [
        10 * rank for rank in range(size)]


def test_one_rank_may_take_long():
    """Here until the others wait for it."""
    others = threading.Semaphore(0)

    def act(ranks):
        if ranks.rank == 1:
            assert others.acquire(timeout=MINUTE) and others.acquire(timeout=MINUTE)
        else:
            others.release()
        return ranks.rank

    assert on_ranks(3, lambda ranks: run_together(ranks, lambda: act(ranks))) == [0, 1, 2]


def fail_on(rank: int, error: Exception):
    def function(ranks):
        def act():
            if ranks.rank == rank:
                raise error

        return run_together(ranks, act)

    return function


def test_all_raise_what_one_raises():
    errors = on_ranks(3, fail_on(1, DataError("no such file: x")))
    assert [type(error) for error in errors] == [DataError] * 3
    assert {str(error) for error in errors} == {"rank 1: no such file: x"}


def test_what_has_failed_elsewhere_need_not_be_ended():
    """Here it would take for ever."""
    def act(ranks, is_over):
        if ranks.rank == 1:
            raise DataError("no such file: x")
        assert is_over.wait(MINUTE)
        raise Abandoned("text that nobody sees")

    def run(ranks):
        is_over = threading.Event()
        return run_together(ranks, lambda: act(ranks, is_over), is_over)

    errors = on_ranks(3, run)
    assert {str(error) for error in errors} == {"rank 1: no such file: x"}


def test_what_nobody_expected_is_raised_everywhere_too():
    errors = on_ranks(2, fail_on(0, KeyError("shape")))
    assert [type(error) for error in errors] == [DataError] * 2
    assert {str(error) for error in errors} == {"rank 0: KeyError: 'shape'"}
    assert isinstance(errors[0].__cause__, KeyError)


def test_an_error_that_all_have_is_said_once():
    def function(ranks):
        def act():
            raise InputError("memory=0")

        return run_together(ranks, act)

    errors = on_ranks(3, function)
    assert [type(error) for error in errors] == [InputError] * 3
    assert {str(error) for error in errors} == {"memory=0"}


def test_different_errors_are_all_said():
    def function(ranks):
        def act():
            if ranks.rank != 1:
                raise DataError(f"file {ranks.rank // 3}")

        return run_together(ranks, act)

    errors = on_ranks(4, function)
    assert {str(error) for error in errors} == {"ranks 0, 2: file 0; rank 3: file 1"}


def test_alone_nothing_is_wrapped():
    with pytest.raises(KeyError):
        run_together(ALONE, lambda: {}["x"])


def test_equal_values_pass():
    assert on_ranks(3, lambda ranks: require_equal(
        ranks, {"seed": 1, "pattern": ("a", "b")}, "-")) == [None] * 3


def test_values_that_differ_are_named_with_their_ranks():
    errors = on_ranks(3, lambda ranks: require_equal(
        ranks, {"same": 0, "seed": 7 if ranks.rank == 1 else 1}, "give one seed"))
    assert [type(error) for error in errors] == [InputError] * 3
    assert {str(error) for error in errors} == {
        "seed differs between the ranks: 1 on ranks 0, 2; 7 on rank 1; remedy: give one seed"}


def test_ranks_that_do_not_know_a_value_agree():
    assert on_ranks(3, lambda ranks: require_agreement(
        ranks, "x", (None, 1, 1)[ranks.rank], "-")) == [None] * 3
    errors = on_ranks(3, lambda ranks: require_agreement(
        ranks, "x", (1, None, 2)[ranks.rank], "look"))
    assert {str(error) for error in errors} == {
        "x differs between the ranks: 1 on rank 0; 2 on rank 2; remedy: look"}
