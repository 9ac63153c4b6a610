from __future__ import annotations

import json

import pytest

from horovod_opt.io.errors import InputError
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.resume_state import check_state, state_of

PARAMETERS = {"samples": 2**62 - 1, "chunk_samples": 2**61, "shards": 2, "window": 2**48,
              "seed": 2**63 - 1, "identity": b"\xff" * 16}


def test_a_state_is_small_and_is_read_again():
    order = Order(**PARAMETERS)
    text = json.dumps(state_of(order, 2**63 - 1, 2**62 - 1))
    assert len(text) < 1024
    assert check_state(json.loads(text), order) == (2**63 - 1, 2**62 - 1)


@pytest.mark.parametrize("changes, text", [
    ({"seed": 5}, "seed: 9223372036854775807 in the state, 5 here"),
    ({"samples": 2**62 - 2}, "samples: 4611686018427387903 in the state, 4611686018427387902 here"),
    ({"window": 3}, "window: 281474976710656 in the state, 3 here"),
    ({"shards": 1}, "shards: 2 in the state, 1 here"),
    ({"chunk_samples": 7}, "chunk_samples: 2305843009213693952 in the state, 7 here"),
    ({"identity": bytes(16)}, "digest: 'ffffffffffffffffffffffffffffffff' in the state, '0000"),
    ({"shuffle": False, "shards": 1, "window": 1}, "shuffle: True in the state, False here"),
])
def test_other_data_or_parameters_are_refused_with_both_values(changes, text):
    state = state_of(Order(**PARAMETERS), 0, 0)
    with pytest.raises(InputError, match=text):
        check_state(state, Order(**{**PARAMETERS, **changes}))


def test_all_differences_are_named():
    state = state_of(Order(**PARAMETERS), 0, 0)
    with pytest.raises(InputError, match="window: .*; seed: "):
        check_state(state, Order(**{**PARAMETERS, "seed": 1, "window": 1}))


@pytest.mark.parametrize("changes, text", [
    ({"version": 2}, "version 2, this horovod-opt reads up to 1; remedy"),
    ({"version": "1"}, r"this is no state.*; remedy: give what state_dict\(\) returned"),
    ({"epoch": -1}, "epoch=-1"),
    ({"position": 101}, "position=101 of 100"),
    ({"position": 1.5}, "position=1.5"),
    ({"shuffle": 1}, "shuffle: 1 in the state, True here"),
])
def test_damaged_states_are_refused(changes, text):
    order = Order(100, 10)
    with pytest.raises(InputError, match=text):
        check_state({**state_of(order, 1, 50), **changes}, order)


@pytest.mark.parametrize("missing", ["epoch", "position", "seed", "digest", "version"])
def test_incomplete_states_are_refused(missing):
    order = Order(100, 10)
    state = state_of(order, 1, 50)
    del state[missing]
    with pytest.raises(InputError):
        check_state(state, order)


@pytest.mark.parametrize("state", [None, [], "state", {}])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(InputError, match="this is no state of a data set"):
        check_state(state, Order(100, 10))
