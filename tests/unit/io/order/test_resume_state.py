from __future__ import annotations

import json

import pytest

from horovod_opt.io.errors import InputError
from horovod_opt.io.order.choice import Given
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.resume_state import Place, Rest, check_state, state_of

PARAMETERS = {"samples": 2**62 - 1, "chunk_samples": 2**61, "shards": 2, "window": 2**48,
              "seed": 2**63 - 1, "identity": b"\xff" * 16}
CHOSEN = {"chunk_samples": 10, "shards": 5, "window": 2}


def check(state, order: Order, **given: int) -> Place:
    """With a window of 3 where it is to be found."""
    return check_state(state, order, Given(**given), lambda found: Order(
        order.samples, found.chunk_samples, found.shards, found.window or 3, order.seed,
        order.identity, order.shuffle))


def check_all_given(state, order: Order) -> Place:
    return check(state, order, chunk_samples=order.chunk_samples, shards=order.shards,
                 window=order.window)


def test_a_state_is_small_and_is_read_again():
    order = Order(**PARAMETERS)
    rest = Rest(2**63 - 1, Order(**PARAMETERS, version=1))
    text = json.dumps(state_of(order, 2**63 - 1, 2**62 - 1, rest))
    assert len(text) < 1024
    assert check(json.loads(text), order) == (2**63 - 1, 2**62 - 1, order, None)  # its end


def test_what_was_left_out_is_taken_from_the_state():
    order = Order(100, 10, 5, 2, seed=3)
    state = state_of(order, 1, 50)
    own = Order(100, 4, 25, 1, seed=3)
    assert check(state, own) == Place(1, 50, order)
    assert check(state, own, window=2) == Place(1, 50, order)
    with pytest.raises(InputError, match="shards: 5 in the state, 25 here; remedy"):
        check(state, own, shards=25)


@pytest.mark.parametrize("given, window", [({}, 3), ({"window": 2}, 2)])
def test_a_state_of_version_1_goes_on_to_its_epoch_s_end(given, window):
    """Then comes this version's order, of the same chunks and shards."""
    old, own = Order(100, **CHOSEN, version=1), Order(100, 4, 25, 1)
    state = {**state_of(old, 7, 30), "version": 1}
    place = check(state, own, **given)
    assert place == Place(7, 30, Order(100, **{**CHOSEN, "window": window}), Rest(7, old))
    again = state_of(place.order, 7, 60, place.rest)
    assert check(json.loads(json.dumps(again)), own, **given) == place._replace(position=60)
    assert "rest" not in state_of(place.order, 8, 10, place.rest)


def test_a_state_of_version_1_of_an_epoch_that_has_not_begun_has_the_new_order():
    old = Order(100, **CHOSEN, version=1)
    for position in (0, 100):
        place = check({**state_of(old, 7, position), "version": 1}, Order(100, 4))
        assert place.rest is None and place.order.version == 2


def test_what_is_not_shuffled_goes_on_alike():
    old = Order(100, 10, shuffle=False, version=1)
    place = check({**state_of(old, 7, 30), "version": 1}, Order(100, 4, shuffle=False))
    assert place == Place(7, 30, Order(100, 10, shuffle=False))


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
        check_all_given(state, Order(**{**PARAMETERS, **changes}))


def test_all_differences_are_named():
    state = state_of(Order(**PARAMETERS), 0, 0)
    with pytest.raises(InputError, match="seed: .*; window: "):
        check_all_given(state, Order(**{**PARAMETERS, "seed": 1, "window": 1}))


@pytest.mark.parametrize("changes, text", [
    ({"version": 3}, "version 3, this horovod-opt reads up to 2; remedy"),
    ({"version": "1"}, r"this is no state.*; remedy: give what state_dict\(\) returned"),
    ({"epoch": -1}, "epoch=-1"),
    ({"position": 101}, "position=101 of 100"),
    ({"position": 1.5}, "position=1.5"),
    ({"shuffle": 1}, "shuffle: 1 in the state, True here"),
    ({"window": 0}, "'window': 0"),
    ({"shards": 11}, "the state is damaged: shards=11"),
    ({"rest": 5}, "'window': 5"),
    ({"rest": {**CHOSEN, "shards": None}}, "'shards': None"),
])
def test_damaged_states_are_refused(changes, text):
    order = Order(100, 10)
    with pytest.raises(InputError, match=text):
        check({**state_of(order, 1, 50), **changes}, order)


@pytest.mark.parametrize("missing", ["epoch", "position", "seed", "digest", "version", "window"])
def test_incomplete_states_are_refused(missing):
    order = Order(100, 10)
    state = state_of(order, 1, 50)
    del state[missing]
    with pytest.raises(InputError):
        check(state, order)


@pytest.mark.parametrize("state", [None, [], "state", {}])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(InputError, match="this is no state of a data set"):
        check(state, Order(100, 10))
