"""Messages between ranks, and maps at the same address."""

from __future__ import annotations

import os

import pytest

from horovod_lab.io.ladder.links import LinkLost
from horovod_lab.io.ladder.symmetric_map import SymmetricMap
from horovod_opt.io.errors import DataError


def test_messages_of_one_tag_keep_their_order_whatever_comes_between(ladder):
    def action(links):
        if links.rank == 0:
            for tag, data in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3")):
                links.send(1, tag, data)
            return None
        return [links.receive(0, tag) for tag in (b"b", b"a", b"a")]

    assert ladder.fork(2, action)[1] == [b"2", b"1", b"3"]


def test_everybody_gets_what_all_say(ladder):
    results = ladder.fork(3, lambda links: links.allgather(b"%d" % links.rank * links.rank))
    assert results == [[b"", b"1", b"22"]] * 3


def test_an_alltoall_of_more_than_a_socket_holds(ladder):
    """All send at once: none receives before it has sent."""
    size = 8 << 20

    def action(links):
        parts = links.alltoall({rank: bytes([links.rank]) * size for rank in (0, 2, 3)}) \
            if links.rank != 1 else {}
        return {rank: (data[:1], len(data)) for rank, data in parts.items()}

    results = ladder.fork(4, action)
    assert results[1] == {}
    for rank in (0, 2, 3):
        assert results[rank] == {peer: (bytes([peer]), size) for peer in (0, 2, 3)}


def test_a_rank_that_has_ended_is_noticed_by_those_that_wait(ladder):
    def action(links):
        if links.rank == 1:
            os._exit(0) if os.fork() == 0 else links.close()
            return None
        links.receive(1, b"x")

    lost = ladder.fork(2, action)[0]
    assert isinstance(lost, LinkLost) and "rank 0: rank 1 has ended" in str(lost)


def test_a_file_is_at_the_same_address_in_all_ranks(tmp_path, ladder):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789" * 1000)

    def action(links):
        mapping = SymmetricMap(str(path), links, [0, 1, 2])
        result = mapping.address, bytes(mapping.view[9995:])
        mapping.close()
        return result

    results = ladder.fork(3, action)
    assert len(set(results)) == 1 and results[0][1] == b"56789"


def test_where_no_address_is_free_on_all_ranks_all_say_so(tmp_path, ladder, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")

    def action(links):
        if links.rank == 1:
            monkeypatch.setattr(SymmetricMap, "_map_at", lambda *_: None)
        return SymmetricMap(str(path), links, [0, 1]).address

    for error in ladder.fork(2, action):
        assert isinstance(error, DataError)
        assert "no address of 5 is free on all 2 nodes" in str(error)


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_barrier_of_all(ladder, ranks):
    assert ladder.fork(ranks, lambda links: links.barrier()) == [None] * ranks
