"""Messages between nodes in the simulation: of what a nonblocking allreduce consists, and when
they are noticed."""

from __future__ import annotations

import math

import pytest

np = pytest.importorskip("numpy")
from hypothesis import given
from hypothesis import strategies as st

from horovod_lab.simulate import summit
from horovod_lab.simulate.modes.messages import Messages
from horovod_lab.simulate.nonblocking_allreduce import (
    NonblockingAllreduce,
    copied,
    nonblocking_allreduce,
)

KIB = 2**10


def messages(**values: float) -> Messages:
    return Messages(summit.setup().changed("test", **values).parameters)


TCP = {"tcp_messages": 1, "hop_inter_seconds": 1e-4}
MPI = {"tcp_messages": 0, "hop_inter_seconds": 1e-4}


# Of what a nonblocking allreduce consists: bytes, hops, exposed

@pytest.mark.parametrize("groups, size, expected", [
    (2, 1 * KIB, NonblockingAllreduce(1 * KIB, 1, 1)),  # recursive doubling
    (8, 1 * KIB, NonblockingAllreduce(3 * KIB, 3, 3)),
    (3, 1 * KIB, NonblockingAllreduce(2 * KIB, 3, 3)),  # one of a pair stands back
    (5, 32 * KIB, NonblockingAllreduce(96 * KIB, 4, 4)),
    # The first chunk, and eight others, four at a time, with two steps of a ring of two.
    (2, 4096 * KIB, NonblockingAllreduce(4096 * KIB, 1 + 2 * 2, 3)),
    # 992 KiB in two chunks go round in quarters.
    (4, 1024 * KIB, NonblockingAllreduce(64 * KIB + 1.5 * 992 * KIB, 2 + 6, 8)),
    # One KiB is left for a chunk of its own, which is doubled.
    (4, 545 * KIB, NonblockingAllreduce((64 + 1.5 * 512 + 2) * KIB, 8, 8)),
    (64, 544 * KIB, NonblockingAllreduce(192 * KIB + 2 * 63 / 64 * 512 * KIB, 18, 18)),  # halved
    (20, 544 * KIB, NonblockingAllreduce(160 * KIB + (2 * 15 / 16 + 1) * 512 * KIB, 6 + 10, 16)),
])
def test_an_exchange_by_hand(groups, size, expected):
    parts = nonblocking_allreduce(groups, size)
    assert parts.bytes == pytest.approx(expected.bytes)
    assert (parts.hops, parts.exposed) == (expected.hops, expected.exposed)


@given(st.integers(2, 5000), st.floats(4, 1e8))
def test_no_exchange_sends_less_than_an_allreduce_must(groups, size):
    parts = nonblocking_allreduce(groups, size)
    assert parts.bytes >= 2 * (groups - 1) / groups * size * (1 - 1e-12)
    assert 0 < parts.exposed <= parts.hops


@given(st.integers(2, 64), st.integers(1, 200))
def test_more_chunks_are_more_bytes_and_hops(groups, chunks):
    less, more = (nonblocking_allreduce(groups, (32 + 512 * number) * KIB)
                  for number in (chunks, chunks + 1))
    assert more.bytes > less.bytes and more.hops >= less.hops and more.exposed == less.exposed


def test_chunks_within_a_tensor_are_not_copied():
    assert copied(100 * 512 * KIB) == pytest.approx(0.01, rel=0.01)
    assert copied(512 * KIB) == pytest.approx(1 - 1 / math.e)
    assert copied(1 * KIB) == pytest.approx(1)


# When a message is noticed

def test_over_tcp_who_waits_is_woken():
    assert messages(**TCP).noticed(np.array([-1.0, 0.0, 3e-6, 5.0])) == pytest.approx(
        [0, 0, 3e-6, 5.0])


@given(st.floats(1e-9, 30))
def test_mpi_is_tested_after_naps_that_grow_with_the_wait(waited):
    way = messages(**MPI)
    now = 0.0
    while now < waited:
        now += max(min(max(now / 100, 2e-6), 500e-6), min(now / 200, 10e-3))
    noticed = float(way.noticed(np.array([waited]))[0])
    assert noticed >= waited
    # Of very long waits the times of tests are kept up to where naps no longer grow.
    assert noticed == pytest.approx(now, abs=1e-9 if waited < 2 else 10e-3)


def test_a_test_by_mpi_is_half_a_millisecond_late_at_most_within_a_tenth_of_a_second():
    waits = np.linspace(1e-6, 0.1, 5000)
    late = messages(**MPI).noticed(waits) - waits
    assert 0 <= late.min() and 0.45e-3 < late.max() <= 0.5e-3


def test_a_sum_over_four_by_hand():
    h = 1e-4
    times, cpu = messages(**TCP, message_cpu_seconds=1e-6).add_up(np.array([0, 0, 0, 1e-3]))
    # The late one finds all it needs; one hop away they wait for one message, else for two.
    assert times == pytest.approx([1e-3 + 2 * h, 1e-3 + h, 1e-3 + h, 1e-3])
    assert cpu == pytest.approx(8 * 2e-6)  # both ends of eight messages


def test_a_sum_over_three_by_hand():
    h = 1e-4
    times, cpu = messages(**TCP, message_cpu_seconds=1e-6).add_up(np.array([0, 1e-3, 0]))
    # The second one gives to the first, which meets the third and gives back.
    assert times == pytest.approx([1e-3 + h, 1e-3 + 2 * h, 1e-3 + 2 * h])
    assert cpu == pytest.approx(4 * 2e-6)


@given(st.lists(st.floats(0, 0.05), min_size=2, max_size=70))
def test_nobody_has_the_sum_before_the_last_has_begun(begins):
    begins = np.array(begins)
    notified, tested = (messages(**way).add_up(begins)[0] for way in (TCP, MPI))
    at_once = messages(tcp_messages=1, hop_inter_seconds=0).add_up(begins)[0]
    assert at_once == pytest.approx(np.full(len(begins), begins.max()))
    assert (notified >= begins.max() - 1e-12).all()
    assert (tested >= notified - 1e-12).all()
    hops = 2 + int(np.ceil(np.log2(len(begins))))
    assert tested.max() <= begins.max() + hops * (1e-4 + 0.5e-3)


def test_who_tests_pays_for_the_tests_in_vain():
    notified, tested = (messages(tcp_messages=tcp, hop_inter_seconds=9e-6, message_cpu_seconds=1e-6)
                        for tcp in (1, 0))
    assert notified.cpu == pytest.approx(2e-6) and notified.hop == pytest.approx(9e-6)
    # Tests after 0, 2, ... 8 us find nothing, the one after 10 us does.
    assert tested.hop == pytest.approx(10e-6)
    assert tested.cpu == pytest.approx(2e-6 + 6e-6)
