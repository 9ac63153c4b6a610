"""What mode topo is charged in the simulation on one node and where GPUs move the data: agreement,
barriers, rounds."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from horovod_lab.simulate import costs, model, summit
from horovod_lab.simulate.modes.topo import Listening, Topo
from horovod_lab.simulate.parameters import Parameters

CALM = {"run_delay_seconds": 0, "timer_slack_seconds": 0, "input_threads": 0}  # nothing is random
NO_ROUNDS = 60  # seconds; longer than any simulation here


def gpus(**values: float) -> Parameters:
    """Summit, whose gradients are all there at once and which moves them in two buckets."""
    return summit.setup().changed("test", **{**CALM, **values}).parameters


def cpus(**values: float) -> Parameters:
    """Nodes of two ranks with a core each, and four buckets of 4 MiB."""
    return gpus(**{
        "ranks_per_node": 2, "cores": 2, "shared_cores": 1, "cis_window": 1, "yields": 1,
        "dispatches_per_second": 0, "compute_seconds": 0.3, "cycle_seconds": 2e-3,
        "tensor_seconds": 0, "gradient_bytes": 16 * 2**20, "bucket_bytes": 4 * 2**20,
        "data_cpu_seconds_per_byte": 1e-12, **values})


def topo(p: Parameters, ranks: int, steps: int = 4) -> model.Result:
    return model.simulate(p, "topo", ranks, steps, seed=0)


def topo_of(p: Parameters, ranks: int) -> Topo:
    return model.build(p, "topo", ranks, 1, 0)


# Which ranks share memory

@pytest.mark.parametrize("ranks, groups", [
    (1, (1, 1)), (4, (1, 4)), (6, (1, 6)), (8, (4, 2)), (9, (3, 3)), (96, (16, 6))])
def test_groups_are_equally_large_and_none_is_larger_than_a_node(ranks, groups):
    assert costs.groups(gpus(), ranks) == groups


# The agreement of the leaders

@pytest.mark.parametrize("ranks, hops", [(6, 0), (12, 1), (96, 4)])
def test_a_bucket_begins_when_the_nodes_have_agreed(ranks, hops):
    p = gpus(hop_inter_seconds=1e-3, tcp_messages=1)
    data = 2 * costs.data_allreduce(p, ranks, p.gradient_bytes / 2)
    packing = p.tensors * p.tensor_seconds / 2
    assert min(topo(p, ranks).steps) == pytest.approx(
        p.compute_seconds + hops * 1e-3 + packing + data)


def test_a_leader_that_tests_holds_up_the_agreement_until_its_next_test():
    path = topo_of(gpus(), 12)
    path.agree(np.array([0.0, 300e-6]))  # it naps for 2 us, or a hundredth of what it has waited
    waited = 200e-6
    while waited < 302e-6:
        waited *= 1.01
    assert path.agreed == pytest.approx(waited)
    notified = topo_of(gpus(tcp_messages=1), 12)
    notified.agree(np.array([0.0, 300e-6]))
    assert notified.agreed == pytest.approx(302e-6)


def test_a_leader_is_woken_unless_it_comes_from_the_last_agreement():
    p = gpus(timer_slack_seconds=50e-6, tcp_messages=1)
    path = topo_of(p, 12)
    path.agree(np.full(2, 1e-3))
    assert path.joined == pytest.approx([1.05e-3] * 2)
    # It wakes the thread of the messages, and that one wakes it again.
    assert path.agreed == pytest.approx(1.05e-3 + 2 * 50e-6 + 2e-6)
    agreed = path.agreed
    path.agree(np.array([agreed / 2, agreed + 1e-3]))
    assert path.joined == pytest.approx([agreed, agreed + 1.05e-3])


def test_one_node_agrees_on_nothing():
    assert topo(cpus(gradient_window=0.5), 2).agreements == 0


@pytest.mark.parametrize("ranks", [4, 6])
def test_what_cpus_move_needs_no_agreement(ranks):
    result = topo(cpus(gradient_window=0.5), ranks, steps=3)
    assert result.cycles == 3 * 4
    assert result.agreements == 0


def test_a_bucket_that_was_complete_earlier_is_agreed_on_earlier():
    path = topo_of(cpus(gradient_window=0.5), 4)
    path.marks.extend([(1.0, np.array([[0.1, 0.6], [0.2, 0.2]])),
                       (3.0, np.array([[0.5, 0.7], [0.2, 0.6]]))])
    assert path.crossed(0.4) == pytest.approx(np.array([[2.5, 1.0], [3.0, 2.0]]))


# The reduction

def test_operations_of_gpus_are_not_tested():
    p = gpus()
    assert topo_of(p, 96).network(64e6) == costs.data_allreduce(p, 96, 64e6)


@pytest.mark.parametrize("group, size, barriers", [
    (2, 256 * 2**10, 0), (2, 257 * 2**10, 2), (2, 4 * 2**20, 3), (1, 4 * 2**20, 0)])
def test_the_ranks_of_a_node_meet_for_large_buckets_only(group, size, barriers):
    assert costs.barriers(group, size) == barriers


def test_a_barrier_costs_a_wake_up():
    p = cpus(poll_seconds=1e-3)
    without = costs.data_work(p, 2, 4 * 2**20, planned=True)
    assert topo_of(p, 2).work(4 * 2**20) == pytest.approx(without + 3e-3)
    assert topo_of(gpus(), 6).work(64e6) == pytest.approx(  # Horovod's own operations have none
        161 * 10e-6 * 64e6 / gpus().gradient_bytes)


# Rounds of negotiation

def test_after_a_request_several_nodes_look_often_and_then_less_and_less():
    alone, several = (Listening(0.1, groups, notifies=False) for groups in (1, 2))
    waits = [listening.wait(now) for listening in (alone, several) for now in (0.0, 1.0)]
    assert waits == [0.1] * 4
    for listening in (alone, several):
        listening.note_request(5.0)
    assert [alone.wait(now) for now in (5.0, 6.0)] == [0.1] * 2
    assert [several.wait(5.0) for _ in range(6)] == [1e-3, 2e-3, 4e-3, 8e-3, 10e-3, 10e-3]
    # One more of the last length; from then on each may be a twentieth of the quiet time.
    assert [several.wait(6.0) for _ in range(4)] == pytest.approx([10e-3, 20e-3, 40e-3, 50e-3])
    assert [several.wait(14.0) for _ in range(5)][-3:] == [0.1] * 3


def test_where_messages_ring_a_request_is_heard_and_heartbeats_are_rare():
    listening = Listening(0.1, 4, notifies=True)
    assert listening.hears and [listening.wait(now) for now in (0.0, 1.0)] == [1.0, 1.0]
    listening.note_request(5.0)
    assert listening.wait(5.0) == 1.0
    assert not Listening(0.1, 4, notifies=False).hears
    requesting = topo(gpus(request_seconds=0.5, tcp_messages=1, heartbeat_seconds=60), 12, steps=20)
    assert requesting.rounds == pytest.approx(sum(requesting.steps) / 0.5, abs=1)


def test_the_last_group_hears_of_a_round_after_as_many_messages_as_it_is_away():
    p = gpus(tcp_messages=1, hop_inter_seconds=1e-3)
    assert topo_of(p, 6).notify() == 0
    assert topo_of(p, 96).notify() == pytest.approx(4e-3)
    assert topo_of(gpus(hop_inter_seconds=1e-3), 96).notify() == 0


def test_a_round_comes_after_each_heartbeat_and_costs_cpu_time():
    quiet, busy = (topo(cpus(heartbeat_seconds=heartbeat), 2, steps=10)
                   for heartbeat in (NO_ROUNDS, 0.05))
    assert quiet.rounds == 0
    assert busy.rounds == pytest.approx(sum(busy.steps) / 0.05, rel=0.05)
    spent = (busy.background_cpu - quiet.background_cpu) * sum(busy.steps) / busy.rounds
    assert spent >= 3 * 30e-6  # a wake-up and two meetings
    # Planned buckets have a thread of their own and do not wait for a round.
    assert max(busy.steps) < max(quiet.steps) + 1e-3


def test_between_nodes_a_request_is_followed_by_many_rounds():
    quiet, requesting = ([topo(cpus(request_seconds=seconds), ranks, steps=4) for ranks in (2, 4)]
                         for seconds in (0, 0.5))
    assert quiet[0].rounds == pytest.approx(quiet[1].rounds, abs=1) and quiet[0].rounds >= 10
    # On one node the request itself; between nodes, where it takes until the next heartbeat, some
    # twenty more in half a second.
    assert quiet[0].rounds <= requesting[0].rounds <= quiet[0].rounds + 4
    assert requesting[1].rounds > 3 * quiet[1].rounds
    assert requesting[1].background_cpu > quiet[1].background_cpu


def test_a_bucket_on_gpus_waits_for_the_round_that_is_before_it_in_the_queue():
    slow = {"hop_intra_seconds": 5e-3}  # two meetings of three hops: 30 ms
    quiet, busy = (topo(gpus(heartbeat_seconds=heartbeat, **slow), 6, steps=20)
                   for heartbeat in (NO_ROUNDS, 0.05))
    assert quiet.rounds == 0 and quiet.steps == pytest.approx([quiet.steps[0]] * 20)
    assert busy.rounds > 5
    longer = [step - quiet.steps[0] for step in busy.steps]
    assert min(longer) >= -1e-12 and 0.005 < max(longer) < 0.031


def test_on_gpus_the_nodes_agree_on_rounds_as_on_buckets():
    result = topo(gpus(heartbeat_seconds=0.05), 12, steps=5)
    assert result.rounds > 0
    assert 5 < result.agreements <= 5 + result.rounds
    alone = topo(gpus(heartbeat_seconds=0.05), 6, steps=5)
    assert alone.rounds > 0 and alone.agreements == 0
