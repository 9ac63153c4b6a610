"""The name that ranks agree on in a store into which earlier processes have written."""

from __future__ import annotations

import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

dist = pytest.importorskip("torch.distributed")

from events import MINUTE, wait_until

from horovod_opt.c10d import store_generation
from horovod_opt.c10d.store_generation import agree_on_generation

STORES = {
    "hash": lambda _: dist.HashStore(),
    "file": lambda folder: dist.FileStore(str(folder / "store"), -1),
    "tcp": lambda _: dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False),
}


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return STORES[request.param](tmp_path)


def meet(store, names, draw=None, seconds=MINUTE, absent=()):
    """What each rank gets, a text or an error; ranks come in a drawn order."""

    def come(rank):
        if draw:
            time.sleep(pauses[rank])
        try:
            return agree_on_generation(store, rank, names, seconds, "g")
        except dist.DistStoreError as error:
            return error

    pauses = [draw.choice([0, 0.002, 0.03]) for _ in names] if draw else []
    present = [rank for rank in range(len(names)) if rank not in absent]
    with ThreadPoolExecutor(len(names)) as pool:
        return list(pool.map(come, present))


@pytest.mark.parametrize("seed", range(6))
def test_every_generation_has_a_name_of_its_own(store, seed):
    draw = random.Random(seed)
    names = set()
    for _ in range(4):
        ranks = draw.choice([1, 2, 3, 4, 7])
        if draw.random() < 0.5:  # processes that were ended while they waited for others
            gone = draw.sample(range(ranks), draw.randint(1, ranks))
            meet(store, list(range(ranks)), draw, seconds=0.05, absent=gone)
        (name,) = set(meet(store, list(range(ranks)), draw))
        names.add(name)
    assert len(names) == 4


@pytest.mark.parametrize("absent", [(0,), (1,), (2, 3), (0, 2), (1, 2, 3)])
def test_a_rank_that_does_not_come_is_named_on_all_others(store, absent, monkeypatch):
    names = [3, 5, 8, 9]
    meet(store, names)  # what it wrote is still there
    time_is_over, held = threading.Event(), []

    def looks(seconds):
        if seconds > 1:  # who has the name, and waits for the outcome
            held.append(seconds)
        while True:
            yield
            if seconds <= 1 and time_is_over.is_set():
                return
            time.sleep(0.001)

    monkeypatch.setattr(store_generation, "_looks", looks)
    members = {1, 2, 3} - {*absent}
    with ThreadPoolExecutor(1) as beside:
        meeting = beside.submit(meet, store, names, seconds=0.5, absent=absent)
        wait_until(lambda: 0 in absent or len(held) == len(members))
        time_is_over.set()
        (text,) = set(map(str, meeting.result(MINUTE)))
    who = [names[0]] if 0 in absent else [names[rank] for rank in absent]
    assert re.fullmatch(rf"making group g: ranks? {', '.join(map(str, who))} (has|have) not come "
                        "within 0.5 s; remedy: .*", text)


def test_a_store_that_is_gone_is_an_error_of_its_own(tmp_path):
    server = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", server.port, None, False, wait_for_workers=False)
    ended = threading.Event()

    def close():
        nonlocal server
        while not server.check(["come 1"]):
            time.sleep(0.001)
        del server
        ended.set()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(RuntimeError) as error:
        agree_on_generation(client, 1, [0, 1], MINUTE, "g")
    thread.join(MINUTE)
    assert ended.is_set()
    assert "has not come" not in str(error.value)
