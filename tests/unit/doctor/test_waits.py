"""`horovod-opt doctor --pid`: who waits for whom, from what ranks say."""

from __future__ import annotations

import pytest

from horovod_opt.doctor.rank_state import RankState, Wait, page, parse
from horovod_opt.doctor.waits import conclusions

HEAD = "fact\trank\t{rank}\t{size}\t{rank}\t{size}\nfact\tmode\t8\t1\n" \
       "fact\tlibrary\t/env/horovod/torch/mpi_lib_v2.so\nfact\tjob\tgloo host:1\n"


def state(rank: int, *facts: str, size: int = 2) -> RankState:
    lines = "".join(f"fact\t{fact}\n" for fact in facts)
    return parse(100 + rank, HEAD.format(rank=rank, size=size) + lines + "end\n")


def waits(kind: str, name: str, iteration: int = 5, age: int | str = 2345, plan: str = "p") -> str:
    return f"waits\t0\t{kind}\t{plan}\t{iteration}\t{age}\t{name}"


def plan(most: int) -> str:
    return f"plan\t0\tp\ttrained\t{most}"


def behind(name: str, count: int) -> str:
    return f"behind\t0\tp\t{name}\t{count}"


IDLE = "Rank 1 waits for nothing in Horovod: its script does something else; py-spy dump --pid " \
       "101 shows what."


def test_a_state():
    text = HEAD.format(rank=1, size=2) + (
        "line\t0\tplan p\nline\t1\tbucket 0\nfact\tof a later version\t1\nend\n")
    one = parse(7, text)
    assert (one.rank, one.size, one.mode, one.controller) == (1, 2, "topo", "gloo")
    one.threads = ["main thread sleeps"]
    assert list(page(one)) == [
        "rank 1 of 2, process 7: torch, mode topo, gloo, local rank 1 of 2",
        "  plan p", "    bucket 0", "  threads: main thread sleeps"]


def test_a_rank_that_says_nothing():
    silent = RankState(7, rank=3, problem="it is stopped")
    assert list(page(silent)) == ["rank 3, process 7", "  it is stopped"]
    assert conclusions([silent]) == ["Rank 3 says nothing: it is stopped."]


def test_negotiated_tensor_that_a_rank_has_not_called():
    first = state(0, waits("negotiated", "x", 0, plan="allreduce"))
    assert conclusions([first, state(1)]) == [
        "Rank 0 waits for 'x' (2.3 s), which rank 1 has not called.", IDLE]


def test_ranks_that_wait_for_each_other():
    first = state(0, waits("negotiated", "x", 0, plan="allreduce"))
    second = state(1, waits("negotiated", "y", 0, 1000, plan="allgather"))
    assert conclusions([first, second]) == [
        "Rank 0 waits for 'x' (2.3 s), which rank 1 has not called.",
        "Rank 1 waits for 'y' (1.0 s), which rank 0 has not called."]


def test_planned_tensor_that_a_rank_has_not_called():
    first = state(0, plan(5), waits("complete", "x"), waits("complete", "y"))
    assert conclusions([first, state(1, plan(4))]) == [
        "Rank 0 waits for 'x', 'y' (2.3 s), which rank 1 has not called.", IDLE]


def test_planned_tensor_that_one_of_several_has_not_called():
    done = state(2, plan(5), waits("complete", "x"), size=3)
    first = state(0, plan(5), waits("complete", "x"), size=3)
    late = state(1, plan(5), behind("x", 4), waits("begun", "w"), size=3)
    lines = conclusions([first, late, done])
    assert "Rank 0 waits for 'x' (2.3 s), which rank 1 has not called." in lines
    assert "Rank 2 waits for 'x' (2.3 s), which rank 1 has not called." in lines
    assert "Rank 1 waits for 'w' (2.3 s), which ranks 0 and 2 have not called." not in lines


def test_tensor_that_nobody_has_called():
    facts = plan(5), behind("y", 4), "misses\t0\tp\t5\ty", waits("begun", "x")
    assert conclusions([state(0, *facts), state(1, *facts)]) == [
        *(f"Rank {rank} has yet to call 'y' of a bucket that it has begun: its script does "
          f"something else; py-spy dump --pid 10{rank} shows what." for rank in (0, 1)),
        "'y': no rank here has called it in iteration 5 of plan trained; the rest of the bucket "
        "waits for it."]


def test_tensor_of_the_next_step():
    first = state(0, plan(5), waits("complete", "x"))
    second = state(1, plan(4), waits("held", "x", 0, ""))
    assert conclusions([first, second]) == [
        "Rank 1 has called 'x' for its next step, and waits until this one is over."]


def test_tensors_that_wait_for_a_vote():
    facts = waits("deferred", "x", age=""), plan(5)
    assert conclusions([state(0, *facts), state(1, *facts)])[0] == (
        "Rank 0 has called 'x', and waits until the ranks have voted on the plan.")


def test_all_have_called_it():
    facts = plan(5), waits("complete", "x")
    assert conclusions([state(0, *facts), state(1, *facts)]) == [
        "All ranks have called 'x' (2.3 s), and none has the result: see below what the threads "
        "hvd-planned and hvd-nodes do."]


def test_other_hosts():
    facts = plan(5), waits("complete", "x")
    assert conclusions([state(0, *facts, size=4), state(1, *facts, size=4)]) == [
        f"Rank {rank} waits for 'x' (2.3 s), which all ranks of this host have called: ask those "
        "of the other hosts." for rank in (0, 1)]


def test_a_rank_that_has_joined_owes_nothing():
    first = state(0, waits("negotiated", "x", 0, plan="allreduce"))
    second = state(1, waits("negotiated", "join.noname", 0, plan="join"))
    assert conclusions([first, second]) == [
        "Rank 1 has joined, and waits for the others to do so."]


def test_a_rank_that_is_stopped_is_suspected():
    first = state(0, waits("negotiated", "x", 0, plan="allreduce"))
    assert conclusions([first, RankState(101, rank=1, problem="it is stopped")]) == [
        "Rank 0 waits for 'x' (2.3 s), perhaps for rank 1.", "Rank 1 says nothing: it is stopped."]


def test_a_collective_that_does_not_end():
    first = state(0, "performs\t1500\tx")
    assert conclusions([first, state(1)])[0] == (
        "Rank 0 performs 'x' (1.5 s) and waits for ranks that do not.")


def test_a_rank_in_init_does_not_know_its_controller():
    waiting = state(0, "phase\tin hvd.init(): connects")
    assert next(iter(page(waiting))) == (
        "rank 0 of 2, process 100: torch, mode topo, local rank 0 of 2")


def test_a_rank_in_init_and_a_lock():
    assert conclusions([state(0, "phase\tin hvd.init(): connects"), state(1, "locked\tplan p")])[
        :2] == ["Rank 0 is in hvd.init(): connects.",
                "Rank 1: another thread has held the lock of plan p for longer than 200 ms, and "
                "may be what everybody waits for."]


def test_members_of_a_process_set_alone_owe_its_tensors():
    facts = "set\t3\t0,2", "waits\t3\tnegotiated\tallreduce\t0\t2000\tx"
    states = [state(0, *facts, size=3), state(1, size=3), state(2, "set\t3\t0,2", size=3)]
    assert conclusions(states)[0] == "Rank 0 waits for 'x' (2.0 s), which rank 2 has not called."


@pytest.mark.parametrize("kind, iteration, called", [
    ("complete", 4, True), ("complete", 5, False), ("negotiated", 0, False)])
def test_has_called(kind, iteration, called):
    wait = Wait(0, kind, "p", iteration, 0, "x")
    assert state(1, plan(5), behind("x", 4)).has_called(wait) is called
