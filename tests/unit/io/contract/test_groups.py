"""Ranks of a group have the same samples; groups share an epoch as ranks do without them."""

from __future__ import annotations

import json

import pytest
from data_sets import tfrecord
from hypothesis import given, settings
from hypothesis import strategies as st
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio

COUNT = 53
WAYS = [[[0], [1]], [[0, 1], [2, 3]], [[0, 2], [1, 3]], [[3, 0], [2, 1]], [[0, 1, 2]],
        [[0, 3], [1, 4], [2, 5]]]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tfrecord(tmp_path_factory.mktemp("groups") / "a.tfrecord",
                    [bytes([i]) for i in range(COUNT)])


def draw_number(sample: hio.Sample) -> tuple[int, int]:
    return sample.data[0], int(sample.random.integers(1 << 30))


def take(open_data, path, options, steps, state):
    """What comes until the epoch's end, or in so many steps, and the state then."""
    with open_data(path, seed=4, chunk_samples=4, threads=1, **options) as data:
        if state is not None:
            data.load_state_dict(state)
        rows = []
        for batch, info in hio.torch.loader(data, 3, decode=draw_number, collate=list, epochs=1,
                                            with_info=True):
            rows.append((batch, info))
            if len(rows) == steps:
                break
        return rows, json.loads(json.dumps(data.state_dict()))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.sampled_from(WAYS), st.integers(1, 3), st.integers(1, 3), st.sampled_from(WAYS))
def test_each_sample_once_to_one_group_also_after_a_resume(path, groups, node_ranks, steps, others):
    pytest.importorskip("torch")
    seen, state = [], None
    for now, most in ((groups, steps), (others, None)):
        ranks = sum(map(len, now))
        results = succeeded(in_job(ranks, lambda open_data, rank, now=now, most=most, state=state:
                                   take(open_data, path, {"groups": now}, most, state), node_ranks))
        rows = [of_rank for of_rank, _ in results]
        for group in now:
            assert all(rows[rank] == rows[group[0]] for rank in group)
        state, = {json.dumps(of_rank) for _, of_rank in results}
        state = json.loads(state)
        firsts = [rows[group[0]] for group in now]
        for step in zip(*firsts):
            assert sum(info.weight for _, info in step) == pytest.approx(len(now))
        seen += [number for of_group in firsts for batch, _ in of_group for number, _ in batch]
    assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize("workers", [0, 1])
def test_groups_see_what_as_many_ranks_see(path, workers):
    def run(open_data, rank, groups):
        with open_data(path, seed=4, groups=groups) as data:
            return list(hio.torch.loader(data, 4, decode=draw_number, collate=list, epochs=1,
                                         workers=workers))

    alone = succeeded(in_job(2, lambda open_data, rank: run(open_data, rank, None)))
    grouped = succeeded(in_job(4, lambda open_data, rank: run(open_data, rank, [[0, 3], [1, 2]])))
    assert grouped == [alone[0], alone[1], alone[1], alone[0]]


@pytest.mark.parametrize("source", ["kernel", "generator"], indirect=True)
def test_tensorflow_has_groups(path, source):
    pytest.importorskip("tensorflow")

    def run(open_data, rank):
        with open_data(path, groups=[[0, 2], [1, 3]]) as data:
            return [[record[0] for record in batch.numpy()]
                    for batch in hio.tensorflow.dataset(data, 5, epochs=1)]

    rows = succeeded(in_job(4, run))
    assert rows[0] == rows[2] and rows[1] == rows[3]
    assert sorted(sum(rows[0] + rows[1], [])) == list(range(COUNT))


@pytest.mark.parametrize("groups, text", [
    ([[0, 1]], r"groups=\[\[0, 1\]\] of 3 ranks; remedy: lists of ranks"),
    ([[0, 1], [2]], "are of 1 to 2 ranks, .*; remedy"), (2, "groups=2; remedy"),
    ([["a"], [1], [2]], "groups=.*; remedy"), ([[0, 1], [1, 2]], "of 3 ranks; remedy")])
def test_what_are_no_groups(path, groups, text):
    results = in_job(3, lambda open_data, rank: open_data(path, groups=groups))
    assert len({str(result) for result in results}) == 1
    with pytest.raises(hio.InputError, match=text):
        raise results[0]


@pytest.mark.parametrize("option", ["alone", "elastic"])
def test_groups_are_of_ranks_that_know_each_other(path, option):
    with pytest.raises(hio.InputError, match=f"{option}=True with groups="):
        hio.open(path, groups=[[0]], **{option: True})


def test_ranks_with_other_groups(path):
    groups = [[[0, 1]], [[0], [1]]]
    results = in_job(2, lambda open_data, rank: open_data(path, groups=groups[rank]))
    assert {type(result) for result in results} == {hio.InputError}
    assert "groups differs between the ranks" in str(results[0])
