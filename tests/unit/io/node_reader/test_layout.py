"""Where the bytes of chunks come to lie."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_opt.io.node_reader.layout import ALONG, GAP, chunk_bytes, extents_of_chunks


def index_of(file, offset, size) -> SimpleNamespace:
    return SimpleNamespace(file=np.array(file, np.int32).reshape(len(offset), -1),
                           offset=np.array(offset, np.int64).reshape(len(offset), -1),
                           size=np.array(size, np.int64).reshape(len(offset), -1))


def test_neighbours_are_one_extent_up_to_a_gap():
    index = index_of([0] * 3, [100, 200 + GAP, 301 + 2 * GAP], [100, 100, 100])
    extents, places = extents_of_chunks(index, 3, np.array([0]))
    assert extents.offset.tolist() == [100, 301 + 2 * GAP]
    assert extents.length.tolist() == [200 + GAP, 100]
    assert extents.place.tolist() == [0, 200 + GAP]
    assert places.ravel().tolist() == [0, 100 + GAP, 200 + GAP]


def test_files_and_chunks_are_never_merged():
    index = index_of([0, 1, 1, 1], [0, 10, 20, 30], [10, 10, 10, 10])
    extents, places = extents_of_chunks(index, 2, np.array([1, 0]))
    assert extents.begin.tolist() == [0, 1, 3]
    assert list(zip(extents.file, extents.offset, extents.length)) == [
        (1, 20, 20), (0, 0, 10), (1, 10, 10)]
    assert places.ravel().tolist() == [0, 10, 0, 10]
    assert extents.bytes.tolist() == [20, 20]


def test_empty_records_are_not_read():
    index = index_of([0, 1], [5, 7], [0, 0])
    extents, _ = extents_of_chunks(index, 2, np.array([0]))
    assert len(extents.file) == 0
    assert extents.bytes.tolist() == [0]


@st.composite
def indices(draw):
    """Records of several parts anywhere in files, that do not overlap, in any order."""
    parts = draw(st.integers(1, 3))
    samples = draw(st.integers(1, 30))
    sizes = draw(st.lists(st.integers(0, 3 * GAP), min_size=samples * parts,
                          max_size=samples * parts))
    gaps = draw(st.lists(st.integers(0, 2 * GAP), min_size=len(sizes), max_size=len(sizes)))
    files = np.sort(draw(st.lists(st.integers(0, 2), min_size=len(sizes), max_size=len(sizes))))
    offset = np.cumsum(np.array(sizes) + gaps) - sizes
    shuffled = np.array(draw(st.permutations(range(len(sizes)))))
    shape = (samples, parts)
    return index_of(files[shuffled].reshape(shape), offset[shuffled].reshape(shape),
                    np.array(sizes)[shuffled].reshape(shape))


@settings(max_examples=150, deadline=None)
@given(indices(), st.integers(1, 7))
def test_every_byte_of_every_part_is_in_its_place(index, chunk_samples):
    samples, parts = index.offset.shape
    chunks = -(-samples // chunk_samples)
    sizes = chunk_bytes(index, chunk_samples)
    chosen = np.arange(chunks)[::-1]
    extents, places = extents_of_chunks(index, chunk_samples, chosen)
    assert extents.bytes.tolist() == sizes[::-1].tolist()
    row = 0
    for i, chunk in enumerate(chosen):
        own = slice(extents.begin[i], extents.begin[i + 1])
        assert extents.length[own].sum() == extents.bytes[i]
        ends = extents.place[own] + extents.length[own]
        assert extents.place[own].tolist() == [0, *ends[:-1]][:len(ends)]
        for sample in range(chunk * chunk_samples, min((chunk + 1) * chunk_samples, samples)):
            for part in range(parts):
                size = index.size[sample, part]
                if size:
                    shift = places[row, part] - extents.place[own]
                    assert any(
                        extents.file[own][e] == index.file[sample, part]
                        and extents.offset[own][e] + shift[e] == index.offset[sample, part]
                        and 0 <= shift[e] <= extents.length[own][e] - size
                        for e in range(len(ends)))
            row += 1


@settings(max_examples=150, deadline=None)
@given(indices(), st.integers(1, 7), st.data())
def test_what_is_not_taken_is_read_only_in_small_gaps(index, chunk_samples, data):
    samples = len(index.offset)
    chunks = np.arange(-(-samples // chunk_samples))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=samples, max_size=samples)))
    whole, places = extents_of_chunks(index, chunk_samples, chunks)
    extents, same_places = extents_of_chunks(index, chunk_samples, chunks, mask)
    assert same_places.tolist() == places.tolist()
    assert extents.bytes.tolist() == whole.bytes.tolist()
    read = 0
    for chunk in chunks:
        own = np.flatnonzero(mask[chunk * chunk_samples:(chunk + 1) * chunk_samples])
        own += chunk * chunk_samples
        expected = sorted((file, offset, size, place) for file, offset, size, place in zip(
            index.file[own].ravel(), index.offset[own].ravel(), index.size[own].ravel(),
            places[own].ravel()) if size)
        pieces = []
        for i in range(extents.begin[chunk], extents.begin[chunk + 1]):
            begin, end = extents.offset[i], extents.offset[i] + extents.length[i]
            inside = [piece for piece in expected
                      if piece[0] == extents.file[i] and begin <= piece[1] < end]
            assert inside[0][1] == begin and inside[-1][1] + inside[-1][2] == end
            assert all(piece[3] - extents.place[i] == piece[1] - begin for piece in inside)
            assert all(b[1] - a[1] - a[2] <= ALONG for a, b in zip(inside, inside[1:]))
            pieces += inside
            read += extents.length[i]
        assert pieces == expected
    assert read <= whole.length.sum()
