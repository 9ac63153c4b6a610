"""This project's pipeline in the benchmark: where its index comes from, and a node's memory."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from horovod_opt.io import index
from horovod_opt.io.bench.data import prepare
from horovod_opt.io.bench.data.records import Records
from horovod_opt.io.bench.peers.hio import Hio, pattern_of, ring_of
from horovod_opt.io.bench.peers.stream import Place

RECORDS = Records(4000, 3072)
MIB = 1 << 20


@pytest.fixture(params=["lmdb", "tfrecord"])
def folder(request, tmp_path):
    prepare.write(request.param, tmp_path / "data", RECORDS)
    return tmp_path / "data"


def test_the_index_is_made_with_the_data_which_an_image_keeps_as_it_is(folder):
    found = index.load(pattern_of(folder))
    assert found.samples == RECORDS.count and found.crc is not None
    assert not (found.files.mtimes_ns % 10**9).any()


@pytest.mark.parametrize("memory, is_default", [(60 * MIB, True), (12 * MIB, False)])
def test_windows_and_chunks_are_as_large_as_a_node_has_memory_for(folder, tmp_path, memory,
                                                                  is_default):
    plain = Hio(Place(folder, RECORDS.count, 10, 0, 0, 1, tmp_path))
    stream = Hio(Place(folder, RECORDS.count, 10, 0, 0, 1, tmp_path, memory=memory, epochs=1))
    try:
        orders = [one._data.order for one in (plain, stream)]
        live = [one.window * one.chunk_samples for one in orders]
        assert (live[0] == live[1]) is is_default and live[1] <= live[0]
        assert stream._data.memory == ring_of(stream._place) < memory
        numbers = [number for batch in stream.epoch(0) for number in RECORDS.numbers(batch)]
        assert sorted(numbers) == list(range(RECORDS.count))
    finally:
        plain.close()
        stream.close()
