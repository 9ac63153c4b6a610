"""What mode topo is charged in the simulation: agreement, exchanges, barriers, rounds."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from horovod_opt.simulate import costs, model, summit
from horovod_opt.simulate.modes.nbcs import Naps
from horovod_opt.simulate.modes.topo import Topo
from horovod_opt.simulate.modes.topo_rounds import Listening
from horovod_opt.simulate.parameters import Parameters

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


def planned(p: Parameters, ranks: int) -> Topo:
    return model.build(p, "topo", ranks, 1, 0)


# Which ranks share memory

@pytest.mark.parametrize("ranks, groups", [
    (1, (1, 1)), (4, (1, 4)), (6, (1, 6)), (8, (4, 2)), (9, (3, 3)), (96, (16, 6))])
def test_groups_are_equally_large_and_none_is_larger_than_a_node(ranks, groups):
    assert costs.groups(gpus(), ranks) == groups


# The agreement of the leaders

@pytest.mark.parametrize("ranks, hops", [(6, 0), (12, 1), (96, 4)])
def test_a_bucket_begins_when_the_nodes_have_agreed(ranks, hops):
    p = gpus(hop_inter_seconds=1e-3)
    data = 2 * costs.data_allreduce(p, ranks, p.gradient_bytes / 2)
    packing = p.tensors * p.tensor_seconds / 2
    assert min(topo(p, ranks).steps) == pytest.approx(
        p.compute_seconds + hops * 1e-3 + packing + data)


def test_a_leader_that_naps_holds_up_the_agreement_until_its_next_test():
    path = planned(gpus(), 12)
    path.agree(np.array([0.0, 300e-6]))  # it tests after 20, 60, 140, 300, 620 us, and some
    assert path.agreed == pytest.approx(300e-6 + 2e-6)
    late = planned(gpus(), 12)
    late.agree(np.array([0.0, 301e-6]))
    assert late.agreed == pytest.approx(620e-6 + 2e-6)
    assert late.cores.background_seconds == pytest.approx(
        2 * 30e-6 + Naps(gpus()).share * (622e-6 + 622e-6 - 301e-6))


def test_a_leader_is_woken_unless_it_comes_from_the_last_agreement():
    p = gpus(timer_slack_seconds=50e-6)
    path = planned(p, 12)
    path.agree(np.full(2, 1e-3))
    assert path.joined == pytest.approx([1.05e-3] * 2)
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
    path = planned(cpus(gradient_window=0.5), 4)
    path.marks.extend([(1.0, np.array([[0.1, 0.6], [0.2, 0.2]])),
                       (3.0, np.array([[0.5, 0.7], [0.2, 0.6]]))])
    assert path.crossed(0.4) == pytest.approx(np.array([[2.5, 1.0], [3.0, 2.0]]))


# The reduction

@pytest.mark.parametrize("groups, hops", [(2, 1), (3, 3), (4, 2), (5, 4), (8, 3)])
def test_little_data_is_doubled(groups, hops):
    p = cpus(hop_inter_seconds=100e-6)
    assert costs.exchange_latency(p, groups, 1024) == pytest.approx(hops * 112.5e-6)
    assert costs.exchange_wire(p, groups, 1024) == pytest.approx(
        hops * 1024 / (2 * p.ring_bandwidth))


@pytest.mark.parametrize("groups, hops", [(2, 1 + 2), (4, 2 + 6), (64, 6 + 2 * 6)])
def test_much_data_goes_round_a_ring_or_is_halved(groups, hops):
    p = cpus(hop_inter_seconds=2e-6)
    assert costs.exchange_latency(p, groups, 2**20) == pytest.approx(hops * 7e-6)
    assert costs.exchange_wire(p, groups, 2**20) == pytest.approx(2**20 / p.ring_bandwidth)


def test_a_test_is_never_more_than_half_a_millisecond_late():
    p = cpus(hop_inter_seconds=1.0)
    assert costs.exchange_latency(p, 2, 1024) == pytest.approx(1.00025)


def test_buckets_share_the_network_and_their_hops_overlap():
    p = cpus(hop_inter_seconds=50e-3)
    size = 4 * 2**20
    path = planned(p, 4)
    path.traced = False
    first = path.move(0.0, size)
    second = path.move(first, size)
    work = path.work(size)
    wire, latency = costs.exchange_wire(p, 2, size), costs.exchange_latency(p, 2, size)
    assert first == pytest.approx(work) and second == pytest.approx(2 * work)
    assert path.data_end == pytest.approx(max(work + wire, 2 * work) + wire + latency)


def test_operations_of_gpus_are_not_tested():
    p = gpus()
    assert planned(p, 96).network(64e6) == costs.data_allreduce(p, 96, 64e6)


@pytest.mark.parametrize("groups, group, size, barriers", [
    (1, 2, 256 * 2**10, 0), (1, 2, 257 * 2**10, 2), (2, 2, 64 * 2**10, 2), (1, 2, 4 * 2**20, 3),
    (2, 2, 4 * 2**20, 4), (2, 1, 4 * 2**20, 0)])
def test_the_ranks_of_a_node_meet_for_large_buckets_only(groups, group, size, barriers):
    assert costs.barriers(groups, group, size) == barriers


def test_a_barrier_costs_a_wake_up():
    p = cpus(poll_seconds=1e-3)
    without = costs.data_work(p, 2, 4 * 2**20, planned=True)
    assert planned(p, 2).work(4 * 2**20) == pytest.approx(without + 3e-3)
    assert planned(gpus(), 6).work(64e6) == pytest.approx(  # Horovod's own operations have none
        161 * 10e-6 * 64e6 / gpus().gradient_bytes)


# Rounds of negotiation

def test_after_a_request_several_nodes_look_often_and_then_less_and_less():
    alone, several = (Listening(0.1, groups) for groups in (1, 2))
    assert [one.wait(now) for one in (alone, several) for now in (0.0, 1.0)] == [0.1] * 4
    for one in (alone, several):
        one.asked(5.0)
    assert [alone.wait(now) for now in (5.0, 6.0)] == [0.1] * 2
    assert [several.wait(5.0) for _ in range(6)] == [1e-3, 2e-3, 4e-3, 8e-3, 10e-3, 10e-3]
    # One more of the last length; from then on each may be a twentieth of the quiet time.
    assert [several.wait(6.0) for _ in range(4)] == pytest.approx([10e-3, 20e-3, 40e-3, 50e-3])
    assert [several.wait(14.0) for _ in range(5)][-3:] == [0.1] * 3


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
    quiet, asked = ([topo(cpus(request_seconds=seconds), ranks, steps=4) for ranks in (2, 4)]
                    for seconds in (0, 0.5))
    assert quiet[0].rounds == pytest.approx(quiet[1].rounds, abs=1) and quiet[0].rounds >= 10
    # On one node the request itself; between nodes, where it takes until the next heartbeat, some
    # twenty more in half a second.
    assert quiet[0].rounds <= asked[0].rounds <= quiet[0].rounds + 4
    assert asked[1].rounds > 3 * quiet[1].rounds
    assert asked[1].background_cpu > quiet[1].background_cpu


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
