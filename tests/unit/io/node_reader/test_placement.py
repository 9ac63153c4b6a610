"""In which load a rank finds its samples, while loads come and go."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from horovod_opt.io.errors import InputError
from horovod_opt.io.node_reader.layout import extents_of_chunks
from horovod_opt.io.node_reader.placement import Placement

SAMPLES, CHUNK, SIZE = 40, 4, 10


def index_of(file_samples: int) -> SimpleNamespace:
    """Samples of one size, in files of so many."""
    number = np.arange(SAMPLES)[:, None]
    return SimpleNamespace(file=(number // file_samples).astype(np.int32),
                           offset=number % file_samples * SIZE, size=0 * number + SIZE)


@pytest.mark.parametrize("file_samples", [40, 7, 3, 1])
@pytest.mark.parametrize("first", [0, 1000])
def test_samples_are_found_in_the_loads_of_their_chunks(file_samples, first):
    """Chunks of one extent and of several, loaded in pieces, of which the first ones are over when
    the others come."""
    index, random = index_of(file_samples), np.random.default_rng(1)
    chunks = random.permutation(SAMPLES // CHUNK)
    steps = np.arange(len(chunks))
    placement = None
    for begin in range(0, len(chunks), 2):
        piece = slice(begin, begin + 2)
        loads = chunks[piece], steps[piece], steps[piece] + 1
        if placement is None:
            placement = Placement(index, CHUNK, first, *loads)
        else:
            placement.extend(first + begin, *loads, int(steps[begin]))
        for load in range(max(begin - 1, 0), begin + 2):
            samples = chunks[load] * CHUNK + random.permutation(CHUNK)
            step = np.full(CHUNK, min(load + 1, begin + 1))
            numbers, places = placement.find(step, samples, index.size[samples])
            assert numbers.tolist() == [first + load] * CHUNK
            where = extents_of_chunks(index, CHUNK, chunks[load:load + 1])[1]
            assert places.tolist() == where[samples - chunks[load] * CHUNK].tolist()


def test_a_chunk_that_is_not_loaded_is_refused():
    placement = Placement(index_of(40), CHUNK, 0, np.array([1, 3]), np.zeros(2, np.int64),
                          np.ones(2, np.int64))
    with pytest.raises(InputError, match="takes sample 8 of chunk 2, which this node was not told"):
        placement.find(np.array([0]), np.array([8]), np.array([[SIZE]]))
