"""How those are named that others wait for, on one node and on several, and who names them."""

from __future__ import annotations

import re
import uuid

import pytest

from horovod_opt.io.job import attendance
from horovod_opt.io.job.notices import SocketNotices

NODES = ("n0", "n0", "n1", "n1")


@pytest.mark.parametrize("hosts, ranks, size, text", [
    ((), [3], 4, "rank 3"),
    (NODES, [3], 4, "rank 3 on n1"),
    (NODES, [0, 1, 3], 4, "ranks 0, 1 on n0 and 3 on n1"),
    (("n0",) * 4, [1, 2], 4, "ranks 1, 2"),  # of one node that goes without saying
    (NODES, [1], 2, "rank 1"),  # these have met as others
    ((), range(1, 12), 12, "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more")])
def test_ranks_are_named_with_their_nodes(monkeypatch, hosts, ranks, size, text):
    monkeypatch.setattr(attendance, "_hosts", hosts)
    assert attendance.name_ranks(ranks, size) == text


@pytest.mark.parametrize("hosts, sees_all, waiting, who, text", [
    ((), True, [0, 2], 0, "ranks 1, 3"), ((), True, [0, 2], 2, ""),  # rank 0 says it
    ((), True, [2], 2, "ranks 0, 1, 3"), ((), True, [0, 1, 2, 3], 0, "an answer, though all have"),
    ((), False, [0, 1], 0, r"some of ranks 2, 3 \(those of other nodes cannot be asked\)"),
    ((), False, [0, 1, 2], 0, "rank 3"),
    (NODES, False, [0], 0, "rank 1 on n0"), (NODES, False, [2], 2, "rank 3 on n1"),
    (NODES, False, [0, 1], 0, r"some of ranks 2, 3 on n1 \(those"),
    (NODES, True, [0, 1, 2], 0, "rank 3 on n1")])
def test_the_first_of_those_that_wait_names_the_others(monkeypatch, hosts, sees_all, waiting, who,
                                                       text):
    monkeypatch.setattr(attendance, "_hosts", hosts)
    notices = SocketNotices(uuid.uuid4().hex, sees_all)
    for rank in waiting:
        notices.put(f"7-{rank}")
    try:
        awaited = attendance._awaited(notices, who, 4, "7")
        assert re.fullmatch(f"{text}.*" if text else "", awaited)
        assert not notices.has(f"8-{who}")  # of another call
    finally:
        for rank in waiting:
            notices.remove(f"7-{rank}")
    assert not notices.has(f"7-{who}")
    assert attendance._awaited(None, who, 4, "7") == "others"
