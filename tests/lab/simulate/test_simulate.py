"""The simulation's rules: who waits for whom, what a step takes, who gets the cores."""

from __future__ import annotations

import dataclasses
import runpy
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest

np = pytest.importorskip("numpy")
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_lab.simulate import costs, model, summit
from horovod_lab.simulate.modes.nbcs import Naps
from horovod_lab.simulate.modes.off import spin
from horovod_lab.simulate.parameters import ParameterError, Parameters
from horovod_lab.simulate.processor_sharing import Cores, no_idle_core

SUMMIT = summit.setup()
CALM = {"run_delay_seconds": 0, "timer_slack_seconds": 0, "input_threads": 0}  # nothing is random
NEGOTIATED = ("off", "gs", "nbcs", "scp", "gs+nbcs", "gs+scp", "nbcs+scp")


def summit_with(**values: float) -> Parameters:
    return SUMMIT.changed("test", **values).parameters


def shared(**values: float) -> Parameters:
    """Two ranks that compute on the two cores of their node, without input or randomness."""
    return summit_with(**{
        **CALM, "ranks_per_node": 2, "cores": 2, "shared_cores": 1, "cis_window": 1,
        "dispatches_per_second": 0, "compute_seconds": 0.3, "cycle_seconds": 2e-3,
        "tensor_seconds": 0, "gradient_bytes": 1e8, "data_cpu_seconds_per_byte": 1e-10, **values})


def mean_step(p: Parameters, mode: str, ranks: int, steps: int = 6, seed: int = 3) -> float:
    return statistics.fmean(model.simulate(p, mode, ranks, steps, seed).steps)


# Meetings

arrivals = st.lists(st.floats(0, 0.1), min_size=2, max_size=40)


@given(arrivals, st.integers(1, 15), st.booleans())
def test_nobody_leaves_a_meeting_before_the_last_has_come(times, hops, naps):
    p = SUMMIT.parameters
    arrivals = np.array(times)
    leave = Naps(p).meet(arrivals, hops, 1e-5) if naps else spin(arrivals, 1e-5)
    assert leave >= max(times) + 1e-5
    if not naps:
        assert leave == max(times) + 1e-5
    else:  # and who naps notices it after one nap a hop at most
        longest = p.nbcs_sleep_max_seconds + p.timer_slack_seconds
        assert leave <= max(times) + 1e-5 + hops * longest


@given(st.floats(1e-9, 0.05))
def test_a_nap_ends_at_the_first_test_after_the_end_of_the_wait(waited):
    p = SUMMIT.parameters
    test, nap = Naps(p).noticed(np.array([waited]))
    length, at = p.nbcs_sleep_min_seconds, 0.0
    while at < waited:  # sleeps that double, each a little longer than asked for
        at += min(length, p.nbcs_sleep_max_seconds) + p.timer_slack_seconds
        length *= 2
    assert test[0] == pytest.approx(at)
    assert 0 <= test[0] - waited <= nap[0] + 1e-12


def test_a_rank_that_naps_holds_up_the_meeting_until_its_next_test():
    p = SUMMIT.parameters  # tests after 70, 160, 290, 500 us
    leave = Naps(p).meet(np.array([0.0, 300e-6]), 1, 5e-6)
    assert leave == pytest.approx(500e-6 + 5e-6)
    # In the second hop half of a nap of 160 + 50 us, on average over a rank that naps and one
    # that does not.
    assert Naps(p).meet(np.array([0.0, 300e-6]), 2, 0) == pytest.approx(500e-6 + 210e-6 / 4)


def test_who_does_not_wait_does_not_nap():
    test, nap = Naps(SUMMIT.parameters).noticed(np.zeros(3))
    assert not test.any() and not nap.any()


@pytest.mark.parametrize("mode", NEGOTIATED)
def test_in_a_timeline_all_leave_their_waits_together_and_after_the_last_arrival(mode):
    trace = model.simulate(SUMMIT.parameters, mode, 6, 2, seed=1, trace=True).trace
    waits = [(begin, end) for _, state, begin, end in trace if state in ("waiting", "napping")]
    assert waits
    awake = sorted({end for _, end in waits})
    for begin, end in waits:
        assert end == min(leave for leave in awake if leave > begin)


# What a step takes

@pytest.mark.parametrize("mode", ("off", "gs", "scp"))
def test_without_randomness_and_contention_a_step_is_compute_cycle_meeting_and_data(mode):
    """All wake up together: the gradients are seen by the first cycle that begins after them."""
    p = summit_with(**CALM, compute_seconds=0.052, tensors=1, tensor_seconds=0)
    ranks = 96
    meeting = costs.small_allreduce(p, ranks)
    data = 2 * costs.data_allreduce(p, ranks, p.gradient_bytes / 2)
    result = model.simulate(p, mode, ranks, 8, seed=0)
    assert result.compute == pytest.approx([0.052] * 8)
    assert result.waiting == pytest.approx([0] * 8, abs=1e-12)
    assert result.data == pytest.approx([data] * 8)
    for step in result.steps:  # a cycle begins every 5 ms; gs ends its own with one more meeting
        latency = step - 0.052 - data
        assert meeting <= latency + 1e-12 and latency <= p.cycle_seconds + 2 * meeting + 1e-12


def test_gs_is_off_and_an_agreement_when_nobody_oversleeps():
    p = summit_with(**CALM, hop_intra_seconds=0, hop_inter_seconds=0)
    assert (model.simulate(p, "gs", 96, 5, seed=1).steps
            == model.simulate(p, "off", 96, 5, seed=1).steps)


@pytest.mark.parametrize("mode, agreed", (("gs", True), ("off", False)))
def test_gs_lets_nobody_sleep_longer_than_who_began_first_would(mode, agreed):
    p = summit_with(hop_intra_seconds=1e-6)
    agreement = costs.small_allreduce(p, 4) if agreed else 0
    in_time = True
    for seed in range(4):
        trace = model.simulate(p, mode, 4, 2, seed, trace=True).trace
        for _, state, asleep, awake in trace:
            began = [begin for _, kind, begin, leave in trace if kind == "waiting"
                     and leave == pytest.approx(asleep - agreement, abs=1e-9)]
            if state == "asleep" and began:
                in_time &= awake <= min(began) + p.cycle_seconds + agreement + 1e-9
    assert in_time == agreed


def test_a_bucket_that_waits_for_its_threads_does_not_hold_up_the_computation():
    quick, slow = (mean_step(shared(gradient_window=0.5, timer_slack_seconds=slack), "topo", 2)
                   for slack in (0, 0.004))
    assert slow == pytest.approx(quick + 0.004, abs=0.002)  # the last bucket's


def test_one_rank_alone_neither_meets_nor_moves_anything():
    p = summit_with(**CALM)
    for mode in ("off", "topo"):
        assert model.simulate(p, mode, 1, 3, seed=0).steps == pytest.approx([0.06] * 3)


@pytest.mark.parametrize("ranks", [2, 6, 48])
def test_topo_is_faster_than_off(ranks):
    """On the whole: its threads are late in other steps than those of off."""
    off, topo = (model.simulate(SUMMIT.parameters, mode, ranks, 30, seed=1)
                 for mode in ("off", "topo"))
    assert len(topo.steps) == len(off.steps) > 0
    assert sum(topo.steps) < sum(off.steps)


@pytest.mark.parametrize("mode", ("off", "gs", "nbcs"))
def test_longer_delays_make_longer_steps(mode):
    steps = [mean_step(summit_with(run_delay_seconds=delay), mode, 96)
             for delay in (0, 0.002, 0.006, 0.018)]
    assert steps == sorted(steps) and steps[-1] > 1.2 * steps[0]


def test_what_one_oversleep_does_in_each_mode():
    """off never recovers within the step, gs does in the next cycle (Figures 6.9 and 6.11)."""
    share = {mode: model.simulate(SUMMIT.parameters, mode, 48, 10, seed=2).background_cpu
             for mode in ("off", "gs", "nbcs", "topo")}
    assert share["off"] > 0.6 > share["gs"] > share["nbcs"] > share["topo"]


def test_the_same_seed_gives_the_same_and_another_something_else():
    first, second, third = (model.simulate(SUMMIT.parameters, "off", 96, 5, seed)
                            for seed in (7, 7, 8))
    assert first == second
    assert first.steps != third.steps


# Who gets the cores

@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.data())
def test_processor_sharing_conserves_cpu_time(ranks, cores, data):
    """Computation and spinning together get what the cores can give, and never more."""
    p = shared(ranks_per_node=ranks, cores=cores)
    node = Cores(p, ranks)
    node.begin(0.0, np.random.default_rng(0))
    running = np.array([data.draw(st.lists(st.booleans(), min_size=ranks, max_size=ranks))])
    seconds = data.draw(st.floats(0.001, 2.0))
    node.advance(0.0, seconds, running)
    computed = ranks * p.compute_seconds - float(node.window_left.sum())
    spent = computed + node.background_seconds
    assert spent <= cores * seconds + 1e-9
    if ranks >= cores and node.working:  # there was work for all of them
        assert spent == pytest.approx(cores * seconds)


def test_a_spinning_thread_takes_its_share_and_a_yielding_one_only_what_is_left():
    p = shared()
    for yields, computed in ((False, 0.1 * 2 / 3), (True, 0.1)):
        node = Cores(p, 2, yields=yields)
        node.begin(0.0, np.random.default_rng(0))
        node.advance(0.0, 0.1, np.array([[True, False]]))
        assert 0.3 - node.window_left == pytest.approx(np.full((1, 2), computed))
        assert node.background_seconds == pytest.approx(0 if yields else 0.1 * 2 / 3)


def test_who_is_through_leaves_the_cores_to_the_others():
    p = shared(cores=1)
    node = Cores(p, 2)
    node.begin(0.0, np.random.default_rng(0))
    node.window_left[:] = [[0.1, 0.3]]
    node.advance(0.0, 1.0, None)
    assert node.ready == pytest.approx(np.array([[0.2, 0.4]]))


def test_two_ranks_on_two_cores_lose_a_third_to_the_one_that_spins():
    """One rank spins, the other sleeps: three threads want two cores."""
    p = shared(run_delay_seconds=0.0015, data_cpu_seconds_per_byte=0, gradient_window=0)
    assert mean_step(p, "off", 2, steps=4) == pytest.approx(0.3 * 3 / 2, rel=0.08)


@pytest.mark.parametrize("ranks, hops", [(2, 1), (3, 2), (4, 2)])
def test_who_spins_on_a_shared_core_answers_when_it_is_its_turn(ranks, hops):
    """All compute and spin: each thread has `share` of a core, and waits for the others' slices."""
    p = shared(run_delay_seconds=0.002, ranks_per_node=ranks, yields=1)
    off, gs = (model.build(p, mode, ranks, 1, 0) for mode in ("off", "gs"))
    off.cores.begin(0.0, off.draws)
    share = 2 / (2 * ranks)
    assert off.answer_delay() == pytest.approx(hops * 0.002 * (1 - share) * (1 / share - 1) / 2)
    assert gs.answer_delay() == 0.0  # it yields
    alone = dataclasses.replace(p, shared_cores=0, cores=1)
    assert model.build(alone, "off", ranks, 1, 0).answer_delay() == 0.0


def test_moving_data_takes_cpu_from_the_computation():
    p = shared(gradient_window=0.5, yields=1)
    work = costs.data_work(p, 2, p.gradient_bytes, planned=True)
    assert mean_step(p, "topo", 2) == pytest.approx(0.3 + work, rel=0.03)
    crowded = dataclasses.replace(p, cores=1)
    assert mean_step(crowded, "topo", 2) == pytest.approx(2 * (0.3 + work), rel=0.03)


@pytest.mark.parametrize("mode", ("gs", "topo"))
def test_the_computation_goes_on_while_the_network_moves_data(mode):
    """Two nodes, a slow network, and gradients all along: only the last of it is waited for."""
    p = shared(gradient_window=1, yields=1, data_cpu_seconds_per_byte=1e-12, bucket_bytes=4e6,
               ring_bandwidth=5e8, tree_bandwidth=1)
    network = costs.data_allreduce(p, 4, p.gradient_bytes)
    assert 0.19 < network < 0.21
    assert mean_step(p, mode, 4) < 0.3 + network / 3


@given(st.integers(0, 12), st.floats(0, 1), st.integers(1, 13))
def test_no_idle_core_is_a_probability_that_falls_with_the_cores(threads, duty, cores):
    chance = no_idle_core(threads, duty, cores)
    assert -1e-12 <= chance <= 1 + 1e-12
    assert no_idle_core(threads, duty, cores + 1) <= chance + 1e-12
    assert no_idle_core(threads, duty, 0) == pytest.approx(1)
    assert (no_idle_core(threads, duty, threads) == pytest.approx(duty**threads)
            if threads else chance == 0)


@pytest.mark.parametrize("spinning", (False, True))
def test_delays_are_on_average_what_the_parameters_say(spinning):
    p = SUMMIT.parameters
    node = Cores(p, 60_000)
    node.begin(0.0, np.random.default_rng(1))
    node.advance(0.0, 10.0, np.ones(node.shape, bool) if spinning else None)
    busy = p.input_duty**7  # all seven cores; beside a spinning thread six are enough
    if spinning:
        busy += 7 * p.input_duty**6 * (1 - p.input_duty)
    window = p.cis_window * p.compute_seconds
    demand = p.compute_threads + p.input_threads * p.input_duty + spinning
    expected = (p.compute_seconds - window + window * max(1, demand / 7)
                * (1 + p.dispatches_per_second * busy * p.run_delay_seconds))
    assert float(node.ready.mean()) == pytest.approx(expected, rel=0.005)


def test_scp_needs_two_cores_a_rank():
    with pytest.raises(ParameterError, match="two cores"):
        model.simulate(shared(), "scp", 2, 1, seed=0)


def test_an_unknown_mode_and_ranks_that_fill_no_node_are_refused():
    with pytest.raises(ParameterError, match="'fast'"):
        model.simulate(SUMMIT.parameters, "fast", 6, 1, seed=0)
    with pytest.raises(ParameterError, match="7 ranks do not fill"):
        model.simulate(shared(), "off", 7, 1, seed=0)


# The pictures of the modes are what their script draws.
DOCS = Path(__file__).parents[3] / "docs"
timelines = runpy.run_path(str(DOCS / "images" / "draw_timelines.py"))


@pytest.mark.parametrize("mode", timelines["TITLES"])
def test_picture_is_up_to_date(mode):
    figure = timelines["draw"](mode)
    ElementTree.fromstring(figure)
    committed = (DOCS / "images" / f"timeline-{mode}.svg").read_text()
    assert committed == figure, "run: python docs/images/draw_timelines.py"


def spinning(mode: str) -> float:
    return sum(segment.end - segment.start for thread in timelines["simulate"](mode)
               for segment in thread if segment.kind == "spin")


def test_pictures_show_what_the_modes_do():
    assert spinning("nbcs") == 0
    assert spinning("gs") == timelines["OVERSLEEP"]  # one cycle's worth
    assert spinning("off") > 3 * spinning("gs")
