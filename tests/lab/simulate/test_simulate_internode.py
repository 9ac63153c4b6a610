"""Mode topo between nodes whose CPUs move the data, as simulated: buckets in flight."""

from __future__ import annotations

import statistics

import pytest

pytest.importorskip("numpy")

from horovod_lab.simulate import costs, model, summit
from horovod_lab.simulate.modes.topo_internode import InternodeTopo
from horovod_lab.simulate.nonblocking_allreduce import copied, nonblocking_allreduce
from horovod_lab.simulate.parameters import ParameterError, Parameters

MIB = 2**20
COMPUTE = 0.3  # seconds
FREE = 1e15  # bytes/s: a link that is never full


def virtual_hosts(hosts: int, per_host: int, cores: int, **values: float) -> Parameters:
    """Nodes that one machine plays: four buckets of 4 MiB, all complete at the end of the
    computation, and nothing costs anything that is not set."""
    return summit.setup().changed("test", **{
        "ranks_per_node": per_host, "nodes_per_machine": hosts, "cores": cores, "shared_cores": 1,
        "cis_window": 1, "compute_threads": 1, "input_threads": 0, "dispatches_per_second": 0,
        "run_delay_seconds": 0, "timer_slack_seconds": 0, "poll_seconds": 0, "tensor_seconds": 0,
        "compute_seconds": COMPUTE, "gradient_bytes": 16 * MIB, "bucket_bytes": 4 * MIB,
        "data_cpu_seconds_per_byte": 1e-20, "hop_intra_seconds": 0, "hop_inter_seconds": 0,
        "tcp_messages": 1, "message_cpu_seconds": 0, "message_cpu_seconds_per_byte": 0,
        "link_bandwidth": FREE, "heartbeat_seconds": 60, **values}).parameters


def step(p: Parameters, ranks: int) -> float:
    return statistics.fmean(model.simulate(p, "topo", ranks, 4, seed=0).steps)


def test_cpus_of_several_groups_exchange_buckets_and_agree_on_nothing():
    assert isinstance(model.build(virtual_hosts(2, 1, 2), "topo", 2, 1, 0), InternodeTopo)
    assert not isinstance(model.build(virtual_hosts(1, 2, 2), "topo", 2, 1, 0), InternodeTopo)
    assert not isinstance(model.build(summit.setup().parameters, "topo", 12, 1, 0), InternodeTopo)
    result = model.simulate(virtual_hosts(4, 2, 2, gradient_window=0.5), "topo", 8, 3, seed=0)
    assert (result.cycles, result.agreements) == (3 * 4, 0)


@pytest.mark.parametrize("number", range(1, 200))
def test_equal_buckets_are_as_many_as_they_are(number):
    p = virtual_hosts(2, 1, 2, gradient_bytes=102_334_368, bucket_bytes=102_334_368 / number)
    assert costs.buckets(p) == number


# Limits

@pytest.mark.parametrize("hosts, per_host, cores, slower", [
    (2, 1, 2, 1), (4, 1, 2, 2), (2, 2, 2, 2), (4, 2, 2, 4), (3, 1, 8, 1)])
@pytest.mark.parametrize("window", [0, 0.5])
def test_messages_that_cost_nothing_leave_the_computation(hosts, per_host, cores, slower, window):
    p = virtual_hosts(hosts, per_host, cores, gradient_window=window)
    assert step(p, hosts * per_host) == pytest.approx(slower * COMPUTE, abs=1e-7)


@pytest.mark.parametrize("hosts, per_host", [(2, 1), (4, 1), (2, 2)])
def test_a_full_link_carries_what_all_ranks_of_a_node_send(hosts, per_host):
    p = virtual_hosts(hosts, per_host, 8, link_bandwidth=1e8)
    bytes_sent = 4 * per_host * nonblocking_allreduce(hosts, 4 * MIB / per_host).bytes
    assert step(p, hosts * per_host) == pytest.approx(COMPUTE + bytes_sent / 1e8)


def test_a_full_link_is_busy_while_the_framework_computes():
    p = virtual_hosts(2, 1, 8, link_bandwidth=1e8, gradient_window=0.5)
    # It begins with the first bucket and has no pause until the last: 4 x 42 ms.
    first = COMPUTE * (1 - 0.5 * 3 / 4)
    assert step(p, 2) == pytest.approx(first + 16 * MIB / 1e8)


@pytest.mark.parametrize("hosts", [2, 4])
def test_hops_of_buckets_in_flight_overlap(hosts):
    p = virtual_hosts(hosts, 1, 8, hop_inter_seconds=20e-3)
    hops = nonblocking_allreduce(hosts, 4 * MIB).hops
    assert step(p, hosts) == pytest.approx(COMPUTE + hops * 20e-3)


def test_the_hops_of_the_last_chunks_come_after_a_full_link():
    p = virtual_hosts(2, 1, 8, link_bandwidth=1e8, hop_inter_seconds=1e-3)
    assert step(p, 2) == pytest.approx(COMPUTE + 16 * MIB / 1e8 + 3e-3)


def test_mpi_adds_naps_to_hops():
    hop = 1e-3
    over_tcp, by_mpi = (step(virtual_hosts(2, 1, 8, hop_inter_seconds=hop, tcp_messages=tcp), 2)
                        for tcp in (1, 0))
    hops = nonblocking_allreduce(2, 4 * MIB).hops
    assert 0 < by_mpi - over_tcp < hops * hop / 100


# The processors

CPU = 1e-8  # seconds a byte


@pytest.mark.parametrize("hosts, cores", [(2, 2), (4, 2), (4, 8)])
def test_messages_take_their_time_from_who_computes(hosts, cores):
    p = virtual_hosts(hosts, 1, cores, message_cpu_seconds_per_byte=CPU, message_cpu_seconds=1e-5)
    parts = nonblocking_allreduce(hosts, 4 * MIB)
    work = 4 * (parts.bytes * CPU + 2 * parts.exposed * 1e-5)
    shared = max(1, hosts / cores)
    result = model.simulate(p, "topo", hosts, 4, seed=0)
    assert result.steps == pytest.approx([shared * (COMPUTE + work)] * 4)
    assert result.background_cpu * result.steps[0] == pytest.approx(work)


def test_cpu_time_is_conserved_while_computation_and_messages_overlap():
    p = virtual_hosts(4, 2, 2, gradient_window=0.9, message_cpu_seconds_per_byte=CPU / 10,
                      data_cpu_seconds_per_byte=CPU / 10)
    parts = nonblocking_allreduce(4, 2 * MIB)
    work = 4 * (parts.bytes + 3.5 * 4 * MIB) * CPU / 10  # a half more than three passes
    result = model.simulate(p, "topo", 8, 4, seed=0)
    mean = statistics.fmean(result.steps)
    assert result.background_cpu * mean == pytest.approx(work)
    # The two cores are never idle but for the end of a step, where one thread of a rank is left.
    assert 8 * (COMPUTE + work) / 2 <= mean * (1 + 1e-9)
    assert mean < 8 * (COMPUTE + work) / 2 + work / 4


def test_a_node_reduces_a_bucket_while_another_one_is_on_its_way():
    # Five hops of 50 ms, and 2 + 1.5 passes of 10 ms: the first halves of all buckets, which end
    # 20 ms after each other, and after the last one its hops and its second half.
    p = virtual_hosts(2, 2, 8, hop_inter_seconds=50e-3,
                      data_cpu_seconds_per_byte=10e-3 / (4 * MIB))
    hops = nonblocking_allreduce(2, 2 * MIB).hops
    assert step(p, 4) == pytest.approx(COMPUTE + 4 * 20e-3 + hops * 50e-3 + 15e-3)


def test_a_rank_of_its_own_copies_what_is_not_within_a_tensor():
    whole, pieces = (virtual_hosts(2, 1, 8, data_cpu_seconds_per_byte=CPU, tensors=tensors)
                     for tensors in (1, 32))
    for p in whole, pieces:
        copies = 2 * copied(16 * MIB / p.tensors) * 16 * MIB
        assert step(p, 2) == pytest.approx(COMPUTE + copies * CPU)


def test_the_halves_of_a_reduction_by_hand():
    assert costs.halves(1, 4 * MIB) == (costs.Half(0, 0), costs.Half(0, 0))
    assert costs.halves(2, 4 * MIB) == (costs.Half(2, 2), costs.Half(1.5, 2))
    assert costs.halves(4, 1000) == (costs.Half(2, 1), costs.Half(1.25, 1))


def test_two_threads_of_a_rank_share_the_core_that_scp_gives_them():
    values = {"data_cpu_seconds_per_byte": CPU, "message_cpu_seconds_per_byte": CPU}
    p = virtual_hosts(2, 2, 8, **values)
    result = model.simulate(p, "topo+scp", 4, 3, seed=0)
    work = 4 * (3.5 * 4 * MIB + nonblocking_allreduce(2, 2 * MIB).bytes) * CPU
    assert result.background_cpu * result.steps[0] == pytest.approx(work)
    assert result.steps[0] >= COMPUTE + work - 1e-9


# Monotonicity

@pytest.mark.parametrize("hosts, per_host", [(2, 1), (4, 1), (2, 2), (4, 2)])
@pytest.mark.parametrize("name, values", [
    ("hop_inter_seconds", (0, 1e-4, 1e-3, 1e-2)), ("message_cpu_seconds", (0, 1e-5, 1e-4)),
    ("message_cpu_seconds_per_byte", (0, 1e-9, 1e-8)), ("link_bandwidth", (1e15, 1e9, 1e8, 1e7)),
    ("gradient_bytes", (8 * MIB, 16 * MIB, 64 * MIB))])
def test_what_costs_more_takes_longer(hosts, per_host, name, values):
    rest = {"message_cpu_seconds_per_byte": 1e-9, "hop_inter_seconds": 1e-4,
            "gradient_window": 0.5, "data_cpu_seconds_per_byte": 1e-10}
    steps = [step(virtual_hosts(hosts, per_host, 2, **{**rest, name: value}), hosts * per_host)
             for value in values]
    assert all(a <= b + 1e-9 for a, b in zip(steps, steps[1:])), steps
    assert steps[0] < steps[-1]


def test_rounds_between_nodes_cost_time_of_the_background_threads_only():
    quiet, busy = (model.simulate(
        virtual_hosts(2, 1, 8, heartbeat_seconds=heartbeat, poll_seconds=30e-6), "topo", 2, 20,
        seed=0) for heartbeat in (60, 0.05))
    assert quiet.rounds == 0
    assert busy.rounds == pytest.approx(sum(busy.steps) / 0.5, abs=1)  # ten heartbeats
    assert busy.background_cpu > quiet.background_cpu
    assert busy.steps == pytest.approx(quiet.steps, rel=1e-3)


def test_ranks_that_do_not_fill_the_machine_are_refused():
    with pytest.raises(ParameterError, match="do not fill nodes of 4"):
        model.check(virtual_hosts(2, 2, 2), "topo", 6)
