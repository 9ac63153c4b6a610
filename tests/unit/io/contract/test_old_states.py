"""A state of the release before goes on in its own order to its epoch's end.

states_of_version_1.json was written by that release: three ranks, two of them on one node, batches
of 7, and what each rank took in each step behind the state.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data_sets import tfrecord
from thread_ranks import in_job, succeeded

from horovod_opt.io.data import Data
from horovod_opt.io.decoder import read_step
from horovod_opt.io.errors import InputError
from horovod_opt.io.job.agreement import run_together
from horovod_opt.io.step_source import StepSource

CASES = json.loads(Path(__file__).with_name("states_of_version_1.json").read_text())
SAMPLES, RANKS, NODE_RANKS, BATCH = 400, 3, 2, 7


@pytest.fixture
def pattern(tmp_path) -> str:
    return str(tfrecord(tmp_path / "a.tfrecord",
                        (number.to_bytes(2, "little") * 20 for number in range(SAMPLES))))


def read_epoch(data: Data, source: StepSource, most: int = SAMPLES) -> list[list[int]]:
    """Samples of up to `most` steps of this rank."""
    steps: list[list[int]] = []
    for step in source.samples(source.begin()):
        records = read_step(data, source.member, step, True).samples.plain()
        assert [int.from_bytes(record[:2], "little") for record in records] == (
            step.samples.tolist())
        steps.append(step.samples.tolist())
        data.advance(step.info.epoch, step.info.end)
        if len(steps) == most:
            break
    return steps


def on_ranks(pattern: str, options: dict, program: Callable[[Data], object]) -> list:
    def on_rank(open_data, rank: int) -> object:
        with open_data(pattern, seed=7, **options) as data:
            return program(data)

    return succeeded(in_job(RANKS, on_rank, NODE_RANKS))


def load_before(data: Data, state: dict) -> StepSource:
    data.load_state_dict(state)
    return StepSource(data, BATCH, None, "spread")


def load_after(data: Data, state: dict) -> StepSource:
    source = StepSource(data, BATCH, None, "spread")
    data.load_state_dict(state)
    return source


def load_together(data: Data, state: dict) -> StepSource:
    """As Keras's callback does."""
    source = StepSource(data, BATCH, None, "spread")
    run_together(data.ranks, lambda: data.take_state(state))
    data.renew_loaders()
    return source


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("load", [load_before, load_after, load_together])
@pytest.mark.parametrize("name", CASES)
def test_it_goes_on_exactly_and_then_the_new_order_begins(pattern, name, load, given):
    case = CASES[name]
    options = case["options"] if given else {
        option: value for option, value in case["options"].items() if option == "shuffle"}

    def program(data: Data) -> tuple:
        source = load(data, case["state"])
        first = read_epoch(data, source, 6)
        state = json.loads(json.dumps(data.state_dict()))
        source.close()
        data.load_state_dict(state)  # again within the epoch, with new loaders
        source = StepSource(data, BATCH, None, "spread")
        return first + read_epoch(data, source), read_epoch(data, source), data.order, state

    ranks = on_ranks(pattern, options, program)
    for rank, (rest, _, _, _) in enumerate(ranks):
        assert rest == [step[rank] for step in case["steps"]]
    _, _, order, state = ranks[0]
    assert state["version"] == 2
    assert order.version == 2 and state.get("rest") == (
        {key: case["state"][key] for key in ("chunk_samples", "shards", "window")}
        if order.shuffle else None)
    assert {(order.chunk_samples, order.shards)} == {
        (case["state"]["chunk_samples"], case["state"]["shards"])}
    dealt = [ranks[0][1][step] + ranks[1][1][step] for step in range(3)]
    assert sorted(sum((steps for _, later, _, _ in ranks for steps in later), [])) == (
        list(range(SAMPLES)))
    places = [order.epoch(2).shards.place_of(order.position_of(2, np.array(step)))
              for step in dealt]
    assert any(of_step.tolist() != sorted(of_step.tolist()) for of_step in places) == order.shuffle


def test_loaders_that_have_begun_are_not_changed(pattern):
    state = CASES["windows left out"]["state"]

    def program(data: Data) -> str:
        source = StepSource(data, BATCH, None, "spread")
        read_epoch(data, source, 2)
        with pytest.raises(InputError, match="remedy: load the state before the first loop"):
            data.load_state_dict(state)
        return data.state_dict()["version"], data.position

    assert set(on_ranks(pattern, {"chunk_samples": 5}, program)) == {(2, 2 * RANKS * BATCH)}


def test_the_window_of_a_state_is_kept_whatever_memory_there_is(pattern):
    """What was found at first from memory= is not found anew."""
    def saved(data: Data) -> tuple:
        source = StepSource(data, BATCH, None, "spread")
        read_epoch(data, source, 5)
        return data.state_dict(), read_epoch(data, StepSource(data, BATCH, None, "spread"))

    def rest(data: Data) -> list[list[int]]:
        own = data.order
        data.load_state_dict(first[0][0])
        assert data.order != own
        return read_epoch(data, StepSource(data, BATCH, None, "spread"))

    first = on_ranks(pattern, {"chunk_samples": 2, "memory": 6000}, saved)
    whole = [steps for _, steps in first]
    assert first[0][0]["window"] < 400 / 2 / first[0][0]["shards"]
    assert on_ranks(pattern, {"chunk_samples": 2}, rest) == [steps[5:] for steps in whole]
