"""Batches of any type say what they are, also as copies and in other processes."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

from horovod_opt.io.batch import BatchInfo, info_of, with_info

torch = pytest.importorskip("torch")

INFO = BatchInfo(1, 2, 8, 16, 4, 4, 1.0)


class Pair(NamedTuple):
    images: Any
    labels: Any


BATCHES = [[1, [2]], (1, 2), {"a": 1}, OrderedDict(b=2), Pair([1], [2]), "text", b"bytes", 3, 1.5,
           np.arange(6.0).reshape(2, 3), np.zeros((0, 4)), [np.arange(3)]]


def saved(batch: Any) -> Any:
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def sent(batch: Any) -> Any:
    reader, writer = multiprocessing.Pipe(duplex=False)
    writer.send(batch)
    return reader.recv()


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: type(batch).__name__)
@pytest.mark.parametrize("way", [
    copy.copy, copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch)), saved, sent],
    ids=["copy", "deepcopy", "pickle", "torch.save", "pipe"])
def test_a_copy_is_the_batch_and_says_so(batch, way):
    given = with_info(batch, INFO)
    result = way(given)
    assert info_of(result) == INFO and type(result).__name__ == type(batch).__name__
    assert isinstance(result, type(batch))
    if isinstance(batch, (str, bytes)):  # which NumPy compares by their exact type
        assert result == batch
    else:
        np.testing.assert_equal(result, batch)


def test_a_deep_copy_shares_nothing():
    given = with_info([[1]], INFO)
    copied = copy.deepcopy(given)
    copied[0].append(2)
    assert given == [[1]]
    array = with_info(np.zeros(3), INFO)
    copy.copy(array)[0] = 1
    assert not array.any()
