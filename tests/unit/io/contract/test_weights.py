"""Samples that come more often than others, and data sets that are mixed: each as often as its
weight says, for any number of ranks, whoever reads, and from any state on."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import numpy as np
import pytest
from data_sets import environment, files, tar, tfrecord
from hypothesis import given
from hypothesis import strategies as st
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io.index.weights import MOST_TIMES, rows_of, times_of

torch = pytest.importorskip("torch")

WEIGHTS = [1, 3, 0, 1, 2, 7, 1, 1, 4, 0, 2, 1]  # of 12 samples: 23 in an epoch
EPOCH = {i: weight for i, weight in enumerate(WEIGHTS) if weight}


@pytest.fixture
def path(tmp_path):
    return tfrecord(tmp_path / "a.tfrecord", [bytes([i]) * (i + 1) for i in range(len(WEIGHTS))])


def weigh(table: hio.SampleTable) -> list[int]:
    assert len(table) == len(WEIGHTS)
    return WEIGHTS


@given(st.lists(st.floats(0, 1e3, allow_subnormal=False), min_size=1, max_size=40),
       st.integers(0, 5))
def test_each_comes_as_often_as_its_weight_says(weights, seed):
    weights = np.where(np.array(weights) < 1e-3, 0, weights)
    if not weights.any():
        return
    counts, rare = times_of(weights, seed, bytes(16))
    expected = weights / weights[weights > 0].min()
    most = MOST_TIMES * (weights > 0).sum()
    expected *= min(1, most / expected.sum())
    assert ((np.floor(expected) <= counts + 1e-6) & (counts <= np.ceil(expected) + 1)).all()
    assert abs(np.cumsum(counts) - np.cumsum(expected)).max() <= 1 + 1e-6 * len(weights)
    assert (counts[weights == 0] == 0).all()
    assert rare == ((weights > 0) & (expected < 1 - 1e-9)).sum()


@pytest.mark.parametrize("weights", [[1e-308, 1e308], [1e308] * 9, [5e-324, 1.0, 1e300]])
def test_weights_of_which_sums_and_quotients_are_infinite(weights, recwarn):
    counts, _ = times_of(np.array(weights), 1, bytes(16))
    assert 1 <= counts[-1] <= counts.sum() <= MOST_TIMES * len(weights) and not recwarn.list


@given(st.lists(st.integers(0, 9), max_size=30))
def test_repetitions_are_a_round_apart(counts):
    rows = rows_of(np.array(counts, np.int64))
    assert Counter(rows.tolist()) == {i: count for i, count in enumerate(counts) if count}
    expected = [i for number in range(max(counts, default=0)) for i, count in enumerate(counts)
                if count > number]
    assert rows.tolist() == expected


@pytest.mark.parametrize("ranks, options", [(1, {}), (2, {"workers": 1}), (3, {"threads": 2})])
def test_every_epoch_has_each_so_often(path, ranks, options):
    def run(open_data, rank):
        with open_data(path, seed=3, chunk_samples=2, weights=weigh) as data:
            loader = hio.torch.loader(data, 4, collate=list, epochs=2, **options, decode=lambda
                                      sample: (sample.data[0], sample.random.random()))
            return [[item for batch in loader for item in batch] for _ in range(2)]

    results = succeeded(in_job(ranks, run))
    for epoch in range(2):
        items = [item for of_rank in results for item in of_rank[epoch]]
        assert Counter(number for number, _ in items) == EPOCH
        assert len({draw for _, draw in items}) == len(items)  # each is augmented by itself


@pytest.mark.parametrize("ranks, others", [(2, 3), (3, 1), (1, 2)])
def test_a_state_goes_on_with_what_has_not_come(path, ranks, others):
    def run(size, state=None):
        def on_rank(open_data, rank):
            with open_data(path, seed=3, chunk_samples=2, weights=weigh) as data:
                if state:
                    data.load_state_dict(json.loads(state))
                sampler = hio.torch.BatchSampler(data, 2)
                loader = torch.utils.data.DataLoader(hio.torch.Dataset(data), collate_fn=list,
                                                     batch_sampler=sampler)
                taken = []
                for step, batch in enumerate(loader):
                    taken += [item[0] for item in batch]
                    if state is None and step == 1:
                        break
                return taken, json.dumps(data.state_dict())
        return succeeded(in_job(size, on_rank))

    first = run(ranks)
    second = run(others, first[0][1])
    assert Counter(item for taken, _ in first + second for item in taken) == EPOCH
    with hio.open(path, seed=3, chunk_samples=2) as data, pytest.raises(
            hio.InputError, match="the state is of another order"):
        data.load_state_dict(json.loads(first[0][1]))


def test_labels_are_balanced(tmp_path):
    root = files(tmp_path / "d", {f"{kind}/{i:03d}.jpg": kind.encode() for kind, count in
                                  (("a", 60), ("b", 15), ("c", 4)) for i in range(count)})
    with hio.open(root, weights=lambda table: 1 / np.bincount(table.labels)[table.labels]) as data:
        labels = [label for batch in hio.torch.loader(data, 8, collate=list, epochs=1)
                  for _, label in batch]
    assert Counter(labels) == {0: 60, 1: 60, 2: 60}


@pytest.mark.parametrize("kind", ["tar", "tfrecord", "lmdb"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_data_sets_are_mixed_by_their_shares(tmp_path, kind, ranks):
    shares = {}
    for name, count, share in (("a", 40, 1), ("b", 8, 2), ("c", 10, 1)):
        records = {f"{i:02d}.bin": f"{name}{i}".encode() for i in range(count)}
        if kind == "tar":
            shares[tar(tmp_path / f"{name}.tar", records.items())] = share
        elif kind == "tfrecord":
            for half in range(2):
                tfrecord(tmp_path / f"{name}{half}.tfrecord", [*records.values()][half::2])
            shares[f"{tmp_path}/{name}*.tfrecord"] = share
        else:
            shares[environment(tmp_path / name, {key.encode(): value for key, value
                                                 in records.items()})] = share

    def run(open_data, rank):
        with open_data(shares, seed=1) as data:
            loader = hio.torch.loader(data, 5, collate=list, epochs=1)
            return [bytes(item) for batch in loader for item in batch]

    taken = [item for own in succeeded(in_job(ranks, run)) for item in own]
    assert Counter(item[:1] for item in taken) == {b"a": 40, b"b": 80, b"c": 40}
    assert Counter(taken) == {f"{name}{i}".encode(): times for name, count, times in (
        ("a", 40, 1), ("b", 8, 10), ("c", 10, 4)) for i in range(count)}


@pytest.fixture
def mixture(tmp_path) -> dict[str, float]:
    """44 samples of web, of which an epoch has each once, and 8 of books, 19 times in all."""
    for name, samples in (("web", 22), ("books", 4)):
        for file in range(2):
            tar(tmp_path / f"{name}{file}.tar",
                [(f"{name}-{file}-{i:03d}.txt", b"x") for i in range(samples)])
    return {str(tmp_path / "web*.tar"): 7, str(tmp_path / "books*.tar"): 3}


@pytest.mark.parametrize("epoch_batches", [None, 5, 7])
@pytest.mark.parametrize("jobs", [
    [(1, 3), (2, 0)], [(2, 7), (3, 2), (1, 9), (2, 0)], [(3, 1), (1, 30), (4, 2), (2, 0)]])
def test_a_mixture_goes_on_from_a_state_with_other_ranks(mixture, jobs, epoch_batches):
    """Each job, of so many ranks, ends after so many steps, within an epoch or a loop of batches;
    the last one at the end of the second epoch."""
    state, seen = None, []
    for ranks, steps in jobs:
        def run(open_data, rank, state=state, steps=steps):
            own, taken = [], 0
            with open_data(mixture, seed=5) as data:
                if state is not None:
                    data.load_state_dict(json.loads(state))
                loader = hio.torch.loader(data, 3, with_info=True, epoch_batches=epoch_batches,
                                          decode=lambda sample: (sample.number, sample.key),
                                          collate=list)
                while data.epoch < 2:
                    for samples, info in loader:
                        own += [(info.epoch, *sample) for sample in samples if info.epoch < 2]
                        taken += 1
                        if taken == steps or data.epoch == 2:
                            return own, json.dumps(data.state_dict())
            return own, ""

        results = succeeded(in_job(ranks, run))
        seen += [sample for own, _ in results for sample in own]
        state = results[0][1]
    assert max(Counter(seen).values()) == 1
    for epoch in range(2):
        of_set = Counter(key.split("-")[0] for at, _, key in seen if at == epoch)
        assert of_set == {"web": 44, "books": 19}


def test_a_state_of_other_shares_is_refused(mixture):
    with hio.open(mixture, seed=5) as data:
        next(iter(hio.torch.loader(data, 4)))
        state = data.state_dict()
    web, books = mixture
    for alike in ({web: 14, books: 6}, {books: 3, web: 7.0}, {web: np.float32(7), books: 3}):
        with hio.open(alike, seed=5) as data:
            data.load_state_dict(state)
            assert data.position == 4
    for other in ({web: 7, books: 4}, {web: 3, books: 7}, {web: 7}, [web, books]):
        with hio.open(other, seed=5) as data:
            with pytest.raises(hio.InputError, match="the state is of another order"):
                data.load_state_dict(state)
            assert data.position == 0


def test_chosen_samples_are_weighed(path):
    with hio.open(path, choose=lambda table: [1, 5, 6], weights=lambda table: table.size[:, 0]
                  ) as data:
        taken = [item[0] for batch in hio.torch.loader(data, 3, collate=list, epochs=1)
                 for item in batch]
        assert Counter(taken) in ({1: 1, 5: 3, 6: 3}, {1: 1, 5: 3, 6: 4})  # of 1, 3 and 3.5
        assert [data.index.key(i) for i in range(len(data))] == [""] * len(data)
        copy = pickle.loads(pickle.dumps(data.index))
        assert np.array_equal(copy.offset, data.index.offset) and copy.digest == data.index.digest


def test_equal_weights_are_none(path):
    with hio.open(path) as plain, hio.open(path, weights=lambda table: [2.5] * len(table)) as data:
        assert data.index.digest == plain.index.digest


def test_what_is_too_rare_is_said(tmp_path, capsys):
    path = tfrecord(tmp_path / "a.tfrecord", [bytes([i]) for i in range(50)])
    with hio.open(path, weights=lambda table: [1e-9] * 30 + [1] * 20) as data:
        assert len(data) <= MOST_TIMES * 50 + 1
    assert "30 samples have so little weight" in capsys.readouterr().err


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("weights, reason", [
    (3, "weights=3; remedy: a function"), (lambda table: [1, 2], r"int64\[2\] for 12 samples"),
    (lambda table: [-1] + [1] * 11, "-1.0 for sample 0"),
    (lambda table: [1] * 11 + [float("nan")], "nan for sample 11"),
    (lambda table: [0] * 12, "0 for all 12 samples"), (lambda table: None, "object")])
def test_what_are_no_weights_is_refused(path, ranks, weights, reason):
    def run(open_data, rank):
        with pytest.raises(hio.InputError, match=reason + ".*; remedy|remedy"):
            open_data(path, weights=weights)

    succeeded(in_job(ranks, run))


def test_what_cannot_be_mixed_is_refused(tmp_path, path):
    other = tfrecord(tmp_path / "b.tfrecord", [b"x"])
    archive = tar(tmp_path / "c.tar", [("1.bin", b"x")])
    for shares, reason in (({path: 0}, "a.tfrecord.*: 0 in"), ({path: "1"}, "'1' in the data sets"),
                           ({}, "names no data"),
                           ({path: 1, tmp_path / "*.tfrecord": 1}, "a.tfrecord is in .* and in"),
                           ({path: 1, archive: 1}, "several formats"),
                           ({path: 1, other: True}, "b.tfrecord.*: True in")):
        with pytest.raises(hio.DataError, match=f"{reason}.*; remedy"):
            hio.open(shares)
    with pytest.raises(hio.InputError, match="none of its samples is chosen; remedy"):
        hio.open({path: 1, other: 1}, choose=lambda table: table.size[:, 0] > 1)
    for options, reason in (({"weights": weigh}, "one of them"), ({"shuffle": False}, "shuffle"),
                            ({"stage_in": tmp_path / "s"}, "horovod-opt io stage")):
        with pytest.raises(hio.InputError, match=reason):
            hio.open({path: 1}, **options)


def test_ranks_weigh_alike(path):
    def run(open_data, rank):
        open_data(path, weights=lambda table: np.arange(len(table)) + 1 + rank)

    results = in_job(2, run)
    assert {type(result) for result in results} == {hio.InputError}
    assert "have to say the same of all samples" in str(results[0])
