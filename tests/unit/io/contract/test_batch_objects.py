"""Batches are ordinary lists, dicts and tensors, for all that users do with them; what is known of
them comes beside them."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
from data_sets import tfrecord
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio

torch = pytest.importorskip("torch")
pytree = pytest.importorskip("torch.utils._pytree")

SAMPLES = 30


class Pair(NamedTuple):
    first: Any
    second: Any


def number(sample: hio.Sample) -> int:
    return sample.number


BATCHES = {  # by the type that collate makes: what of, and how many leaves a batch of two has
    list: (list, 2), tuple: (tuple, 2), np.ndarray: (np.array, 1), torch.Tensor: (torch.tensor, 1),
    dict: (lambda items: {"x": torch.tensor(items), "y": [len(items)]}, 2),
    OrderedDict: (lambda items: OrderedDict(b=items[0]), 1),
    Pair: (lambda items: Pair(np.array(items), [items]), 3),
    str: (str, 1), bytes: (bytes, 1), int: (sum, 1)}


@pytest.fixture
def path(tmp_path):
    return tfrecord(tmp_path / "a.tfrecord", [bytes([i]) for i in range(SAMPLES)])


def plain(batch: Any) -> Any:
    """With lists in the place of tensors, to be compared."""
    return pytree.tree_map(lambda leaf: getattr(leaf, "tolist", lambda: leaf)(), batch)


def saved(batch: Any) -> Any:
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("kind", BATCHES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("options", [{}, {"workers": 1}, {"with_info": True}], ids=str)
def test_a_batch_is_what_collate_has_made(path, kind, options):
    collate, leaves = BATCHES[kind]
    with hio.open(path, shuffle=False) as data:
        batch = next(iter(hio.torch.loader(data, 2, decode=number, collate=collate, **options)))
        if options.get("with_info"):
            batch, info = batch
            assert type(info) is hio.BatchInfo and (info.start, info.end) == (0, 2)
        expected = collate([0, 1])
        for copied in (batch, copy.copy(batch), copy.deepcopy(batch),
                       pickle.loads(pickle.dumps(batch)), saved(batch)):
            assert type(copied) is kind and not hasattr(copied, "info")
            assert plain(copied) == plain(expected)
        assert len(pytree.tree_leaves(batch)) == leaves
        doubled = pytree.tree_map(lambda leaf: leaf * 2, batch)
        assert type(doubled) is kind
        assert plain(doubled) == plain(pytree.tree_map(lambda leaf: leaf * 2, expected))


def test_keras_trees_go_into_batches(path):
    optree = pytest.importorskip("optree")
    with hio.open(path) as data:
        for kind, (collate, leaves) in BATCHES.items():
            batch = next(iter(hio.torch.loader(data, 2, decode=number, collate=collate)))
            assert len(optree.tree_leaves(batch)) == leaves, kind


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("workers", [0, 1])
def test_the_info_beside_batches_is_whose_samples_they_have(path, ranks, workers):
    """And a loop that says `taken` is resumed by it."""
    def train(open_data, rank):
        with open_data(path, seed=3) as data:
            loader = hio.torch.loader(data, 4, decode=number, collate=list, workers=workers,
                                      with_info=True, epochs=1)
            rows = []
            for batch, info in loader:
                data.taken(info)
                rows.append((batch, info))
                if info.step == 1:
                    break
            state = data.state_dict()
        with open_data(path, seed=3) as data:
            data.load_state_dict(state)
            rows += hio.torch.loader(data, 4, decode=number, collate=list, with_info=True, epochs=1)
            return rows, data.order

    results = succeeded(in_job(ranks, train))
    order = results[0][1]
    seen = []
    for step in zip(*(rows for rows, _ in results)):
        info = step[0][1]
        numbers = sorted(number for batch, _ in step for number in batch)
        assert numbers == sorted(order.at(0, np.arange(info.start, info.end)).tolist())
        assert all(info.size == len(batch) for batch, info in step)
        assert sum(info.weight for _, info in step) == pytest.approx(ranks)
        seen += numbers
    assert sorted(seen) == list(range(SAMPLES))


@pytest.mark.parametrize("wrong", [[1, 2], {"a": 1}, torch.zeros(2), None])
def test_a_batch_is_no_info(path, wrong):
    with hio.open(path) as data:
        with pytest.raises(hio.InputError, match=f"a {type(wrong).__name__} does not say .*; "
                                                 "remedy: .* with_info=True"):
            data.taken(wrong)
