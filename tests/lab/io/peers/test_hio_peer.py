"""This project's pipeline in the benchmark: where its index comes from, and a node's memory."""

from __future__ import annotations

import operator

import pytest

pytest.importorskip("torch")

from horovod_lab.io.data import data_folder
from horovod_lab.io.data.records import Records
from horovod_lab.io.peers.hio import Hio, pattern_of, ring_of
from horovod_lab.io.peers.stream import Place
from horovod_opt.io import index

RECORDS = Records(4000, 3072)
MIB = 1 << 20


@pytest.fixture(params=["lmdb", "tfrecord"])
def folder(request, tmp_path):
    data_folder.write(request.param, tmp_path / "data", RECORDS)
    return tmp_path / "data"


def test_the_index_is_made_with_the_data_which_an_image_keeps_as_it_is(folder):
    found = index.load(pattern_of(folder))
    assert found.samples == RECORDS.count and found.crc is not None
    assert not (found.files.mtimes_ns % 10**9).any()


@pytest.mark.parametrize("memory, of_default", [(60 * MIB, operator.gt), (12 * MIB, operator.lt)])
def test_windows_and_chunks_are_as_large_as_a_node_has_memory_for(folder, tmp_path, memory,
                                                                  of_default):
    plain = Hio(Place(folder, RECORDS.count, 10, 0, 0, 1, tmp_path))
    stream = Hio(Place(folder, RECORDS.count, 10, 0, 0, 1, tmp_path, memory=memory, epochs=1))
    try:
        default, live = (one._data.order.window * one._data.order.chunk_samples
                         for one in (plain, stream))
        assert of_default(live, default)
        assert stream._data.memory == ring_of(stream._place) < memory
        numbers = [number for batch in stream.epoch(0) for number in RECORDS.numbers(batch)]
        assert sorted(numbers) == list(range(RECORDS.count))
    finally:
        plain.close()
        stream.close()
