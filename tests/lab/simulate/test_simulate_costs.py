"""What a collective costs in the simulation, and its parameters."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("numpy")
from hypothesis import given
from hypothesis import strategies as st

from horovod_lab.simulate import costs, summit
from horovod_lab.simulate.parameters import FIELDS, ParameterError, parse_settings

SUMMIT = summit.setup()


def test_small_allreduce_by_hand():
    p = SUMMIT.parameters  # 6 ranks a node: 3 hops within, log2(16) between
    assert costs.hops(p, 96) == 3 + 4
    assert costs.small_allreduce(p, 96) == pytest.approx(3 * 1e-6 + 4 * 2e-6)
    assert costs.small_allreduce(p, 24_576) == pytest.approx(3e-6 + 12 * 2e-6)
    assert costs.small_allreduce(p, 1) == 0


def test_data_allreduce_by_hand():
    p, size = SUMMIT.parameters, 64 * 2**20
    assert costs.data_allreduce(p, 1, size) == 0
    assert costs.data_allreduce(p, 6, size) == pytest.approx(size / 10e9 + 5 * 6e-6)
    tree = size / 7.5e9 + 12 * 15e-6 + 5 * 4e-6
    assert costs.data_allreduce(p, 24_576, size) == pytest.approx(tree)
    # A ring is better while it has few hops.
    assert costs.data_allreduce(p, 48, size) == pytest.approx(size / 10e9 + 47 * 6e-6)


def test_work_within_a_node_by_hand():
    p = SUMMIT.changed("test", data_cpu_seconds_per_byte=1e-10).parameters  # 6 ranks a node
    assert costs.data_work(p, 96, 1e8, planned=True) == pytest.approx(0.03)
    assert costs.data_work(p, 96, 1e8, planned=False) == pytest.approx(0.02 + 0.05 * 5 / 6)
    assert costs.data_work(p, 2, 1e8, planned=False) == pytest.approx(0.045)


@given(st.integers(2, 20_000), st.floats(1, 1e9), st.floats(1, 1e9))
def test_more_data_never_costs_less(ranks, less, more):
    low, high = sorted((less, more))
    p = SUMMIT.parameters
    assert costs.data_allreduce(p, ranks, low) <= costs.data_allreduce(p, ranks, high)


# Parameters

@pytest.mark.parametrize("name, value", [
    ("batch", 0), ("batch", 1.5), ("cores", math.nan), ("input_duty", 1.01), ("cis_window", -0.1),
    ("cycle_seconds", 0), ("ring_bandwidth", math.inf), ("shared_cores", 2)])
def test_a_value_out_of_range_is_refused_with_its_name_and_range(name, value):
    with pytest.raises(ParameterError) as caught:
        SUMMIT.changed("test", **{name: value})
    field = FIELDS[name].metadata
    for part in (name, f"{value:g}", f"{field['low']:g}", f"{field['high']:g}"):
        assert part in str(caught.value)


def test_settings_are_parsed_and_what_is_none_is_refused():
    assert parse_settings(["cores=3", "input_duty=.5"]) == {"cores": 3, "input_duty": 0.5}
    for text, part in (("cores=many", "'many' is no number"), ("corse=3", "'corse'"),
                       ("cores", "'cores'")):
        with pytest.raises(ParameterError, match=part):
            parse_settings([text])


def test_every_parameter_of_the_preset_has_an_origin():
    for name, parameter in SUMMIT.to_json().items():
        assert parameter["origin"].split(":")[0].split(",")[0] in (
            "source", "published", "FITTED", "assumed", "measured here",
            "default of the setting (docs/use/settings.md)"), name
    assert [name for name, parameter in SUMMIT.to_json().items()
            if parameter["origin"].startswith("FITTED")
            ] == ["input_duty", "dispatches_per_second", "run_delay_seconds"]
