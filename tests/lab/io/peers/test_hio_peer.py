"""This project's pipeline in the benchmark: where its index comes from, and a node's memory."""

from __future__ import annotations

import operator

import pytest

pytest.importorskip("torch")

from horovod_lab.io.data import data_folder
from horovod_lab.io.data.records import Records
from horovod_lab.io.peers.hio import Hio, node_cache_bytes, pattern_of
from horovod_lab.io.peers.stream import Place
from horovod_opt.io import index

RECORDS = Records(4000, 3072)
MIB = 1 << 20


@pytest.fixture(params=["lmdb", "tfrecord"])
def folder(request, tmp_path):
    data_folder.write(request.param, tmp_path / "data", RECORDS)
    return tmp_path / "data"


def test_the_index_is_made_with_the_data_which_an_image_keeps_as_it_is(folder):
    data_index = index.load(pattern_of(folder))
    assert data_index.samples == RECORDS.count and data_index.crc is not None
    assert not (data_index.files.mtimes_ns % 10**9).any()


@pytest.mark.parametrize("memory, of_default", [(60 * MIB, operator.eq), (12 * MIB, operator.lt)])
def test_windows_and_chunks_are_as_large_as_a_node_has_memory_for(folder, tmp_path, memory,
                                                                  of_default):
    plain = Hio(Place(folder, RECORDS.count, 10, 0, 0, 1, tmp_path))
    stream = Hio(Place(folder, RECORDS.count, 10, 0, 0, 1, tmp_path, memory=memory, epochs=1))
    try:
        default, live = (stream._data.order.window * stream._data.order.chunk_samples
                         for stream in (plain, stream))
        assert of_default(live, default)
        assert stream._data.memory == node_cache_bytes(stream._place) < memory
        numbers = [number for batch in stream.epoch(0) for number in RECORDS.numbers(batch)]
        assert sorted(numbers) == list(range(RECORDS.count))
    finally:
        plain.close()
        stream.close()
