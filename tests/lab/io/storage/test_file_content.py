"""The bytes of a file in blocks, beside a bytearray."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_lab.io.storage.file_content import BLOCK, Content, Source

OFFSETS = st.integers(0, 4 * BLOCK)
SOURCE = bytes(range(1, 256)) * 40  # two blocks and a half
STEPS = st.lists(st.one_of(
    st.tuples(st.just("write"), OFFSETS, st.integers(1, 2 * BLOCK)),
    st.tuples(st.just("truncate"), OFFSETS, st.just(0))), max_size=8)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, reads=st.lists(st.tuples(OFFSETS, OFFSETS), min_size=1, max_size=4))
def test_it_is_as_a_row_of_bytes(tmp_path_factory, steps, reads):
    path = tmp_path_factory.getbasetemp() / "source"
    path.write_bytes(SOURCE)
    content, plain = Content(Source(path), len(SOURCE)), bytearray(SOURCE)
    copies = []
    for number, (step, offset, size) in enumerate(steps):
        copies.append((content.copy(), bytes(plain)))
        if step == "write":
            data = bytes([number + 1]) * size
            before, new_blocks = content.block_count, content.count_new_blocks(offset, size)
            content.write(offset, data)
            assert content.block_count == before + new_blocks
            if size:
                plain.extend(bytes(max(0, offset - len(plain))))
                plain[offset:offset + size] = data
        else:
            content.truncate(offset)
            plain[offset:] = bytes(max(0, offset - len(plain)))
    for copy, plain_copy in [*copies, (content, bytes(plain))]:
        assert copy.size == len(plain_copy)
        for offset, size in reads:
            assert copy.read(offset, size) == plain_copy[offset:offset + size]
