"""Stores of several nodes, here of folders with different tars: who has what, until when."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
import time

import pytest
from events import wait_until
from overlaid import READ_ALL

from horovod_opt.io.errors import DataError
from horovod_opt.io.index import pack_index
from horovod_opt.io.job.launcher import job_of_launcher
from horovod_opt.io.overlay.launch import local_parts
from horovod_opt.io.overlay.peers import Peers, Place


@pytest.fixture
def nodes(job, tmp_path, monkeypatch):
    """Folders of two nodes, of which each has every other tar."""
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", "lo")
    folders = [tmp_path / f"node-{k}" for k in range(2)]
    for k, folder in enumerate(folders):
        folder.mkdir()
        shutil.copy(job.pack / "pack.hoi", folder)
        for tar in sorted(job.pack.glob("*.tar"))[k::2]:
            shutil.copy(tar, folder)
    return folders


def meeting(tmp_path, *options: str) -> tuple[str, ...]:
    return ("--meet", str(tmp_path / "meet"), "--nodes", "2", *options)


@pytest.mark.parametrize("job", [None, 3], indirect=True, ids=["plain", "zstd"])
def test_each_reads_all(job, nodes, tmp_path):
    """A file of another node costs one round trip, and the bytes of its tar; who is ready first
    answers until the other is, too (P1)."""
    jobs = [job.start("sh", "-c", f"{wait}; diff -r {job.source} {job.at}", pack=folder,
                      options=meeting(tmp_path, "--counters", str(tmp_path / f"{k}.json")))
            for k, (folder, wait) in enumerate(zip(nodes, ("true", "sleep 1")))]
    for process in jobs:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    index = pack_index.read(job.pack / "pack.hoi")
    for k in range(2):
        job.counters_file = tmp_path / f"{k}.json"
        counters = job.last_counters()
        away = index.file % 2 != k
        assert counters["round_trips"] == counters["opens_remote"] == away.sum() > 0
        assert counters["remote_bytes"] == index.size[away].sum()
        assert counters["served_bytes"] == index.size[~away].sum()
        assert counters["opens_local"] + counters["opens_store"] == len(index.file)
    assert list((tmp_path / "meet").iterdir()) == []


def test_a_node_dies(job, nodes, tmp_path):
    """The other one hears of it as an error for each file that was there alone, and ends."""
    wait_and_read = f'echo; read line; exec "{sys.executable}" -c "$0" "$@"'
    jobs = [job.start("sh", "-c", wait_and_read, READ_ALL, str(job.at), str(job.source),
                      pack=folder, options=meeting(tmp_path), stdin=-1) for folder in nodes]
    for process in jobs:
        assert process.stdout.readline() == "\n"
    job.pack = nodes[1]
    store, = job.stores()
    os.kill(store, signal.SIGKILL)
    jobs[1].kill()
    jobs[1].communicate(timeout=60)
    out, err = jobs[0].communicate("\n", timeout=60)
    index = pack_index.read(nodes[0] / "pack.hoi")
    away = int((index.file % 2 != 0).sum())
    assert out == f"{len(index.file) - away} {away}\n"
    assert "does not answer" in err and err.count("\n") <= 10


WRITES = r"""
import sys
root, number = sys.argv[1:]

def step(what):
    print(what, flush=True)
    input()

names = [f"{root}/new-{i}" for i in range(8)]
if number == "0":
    files = [open(name, "x") for name in names]
    step("open")
    for name, file in zip(names, files):
        file.write(name)
        file.close()
    step("closed")
else:
    step("begun")
    for name in names:
        try:
            open(name, "w")
        except FileExistsError:
            print("taken", end=" ")
    step("")
    print(all(open(name).read() == name for name in names))
    for name in names:
        open(name, "w").write("again")
"""


def test_a_name_has_one_writer(job, nodes, tmp_path):
    """Of all nodes, whichever of them is its owner; each sees what others have closed."""
    (tmp_path / "out").mkdir()
    jobs = [job.start(sys.executable, "-c", WRITES, str(job.at), str(k), pack=folder,
                      options=meeting(tmp_path, "--outputs", str(tmp_path / "out")), stdin=-1)
            for k, folder in enumerate(nodes)]

    def go_on(k: int) -> None:
        jobs[k].stdin.write("\n")
        jobs[k].stdin.flush()

    lines = [jobs[0].stdout.readline(), jobs[1].stdout.readline()]
    for k in (1, 0):
        go_on(k)
        lines.append(jobs[k].stdout.readline())
    for k in (1, 0):
        go_on(k)
    assert lines == ["open\n", "begun\n", "taken " * 8 + "\n", "closed\n"]
    assert [process.communicate(timeout=60) for process in jobs] == [("", ""), ("True\n", "")]
    assert {path.read_text() for path in (tmp_path / "out").iterdir()} == {"again"}


def test_who_has_died_writes_nothing(job, nodes, tmp_path):
    """P3."""
    one, other = peers_of(nodes, tmp_path / "meet")
    names = [f"/out/{i}" for i in range(20)]
    assert all(one.claim(name) for name in names)
    assert not any(peers.claim(name) for name in names for peers in (one, other))
    for name in names[:10]:
        other.free(name)  # it has none of them
    assert not any(other.claim(name) for name in names)
    for name in names[:10]:
        one.free(name)
    assert all(other.claim(name) for name in names[:10])
    for connection in one._kept:
        with socket.socket(fileno=os.dup(connection.fileno())) as own:
            own.shutdown(socket.SHUT_RDWR)
    owned = [name for name in names[10:] if other._owner_of(name) is None]
    assert owned
    for name in owned:
        wait_until(lambda name=name: other.claim(name))


def test_nodes_that_write_elsewhere(job, nodes, tmp_path):
    errors = []

    def start(k):
        index = pack_index.read(nodes[k] / "pack.hoi")
        try:
            Peers(index, local_parts(nodes[k], index),
                  Place(2, tmp_path / "meet", 60.0, outputs=f"/out-{k}"))
        except DataError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=start, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors and all("the same on all nodes" in error for error in errors)


def test_jobs_that_share_a_folder(job, nodes, tmp_path):
    """Each has its own nodes, whoever comes first."""
    index = pack_index.read(job.pack / "pack.hoi")
    found: dict[tuple[str, int], Peers] = {}

    def start(name: str, k: int) -> None:
        found[name, k] = Peers(index, local_parts(nodes[k], index),
                               Place(2, tmp_path / "meet", 60.0, job=name))

    threads = [threading.Thread(target=start, args=(name, k)) for k in range(2)
               for name in ("one", "other", "")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (name, k), peers in found.items():
        assert set(peers._owners) == {found[name, i].own_file.name for i in range(2)}
        away = int((index.file % 2 != k).nonzero()[0][0])
        assert len(peers.take_stored(away)) == index.size[away]


def test_what_tells_jobs_apart():
    rendezvous = {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "a", "HOROVOD_GLOO_RENDEZVOUS_PORT": "1",
                  "SLURM_JOB_ID": "7"}
    for variables, expected in ((rendezvous, "a 1"), ({"PMIX_NAMESPACE": "prte-1@1"}, "prte-1@1"),
                                ({"SLURM_JOB_ID": "7"}, "7"), ({}, "")):
        assert job_of_launcher(variables) == expected


def peers_of(folders, meet) -> list[Peers]:
    found: list = [None] * len(folders)

    def start(k):
        index = pack_index.read(folders[k] / "pack.hoi")
        found[k] = Peers(index, local_parts(folders[k], index), Place(len(folders), meet, 60.0))

    threads = [threading.Thread(target=start, args=(k,)) for k in range(len(folders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_another_home_has_the_right_bytes(job, nodes, tmp_path):
    """P2: of two homes one has other bytes; whoever asks gets the others'."""
    third = tmp_path / "node-2"
    shutil.copytree(nodes[1], third)
    for tar in third.glob("*.tar"):
        tar.write_bytes(bytes(byte ^ 1 for byte in tar.read_bytes()))
    asker, *_ = peers_of([nodes[0], nodes[1], third], tmp_path / "meet")
    index = pack_index.read(nodes[0] / "pack.hoi")
    for row in range(len(index.file)):
        if index.file[row] % 2:
            stored = asker.take_stored(row)
            assert len(stored) == index.size[row]
    assert asker.counters["opens_remote"] == (index.file % 2 == 1).sum()
    assert asker.counters["opens_remote"] <= asker.counters["round_trips"]


def test_files_of_earlier_jobs_do_no_harm(job, nodes, tmp_path):
    meet = tmp_path / "meet"
    meet.mkdir()
    (meet / "store-0.json").write_text("{")
    (meet / "store-1.json").write_text('{"address": ["127.0.0.1", 9], "secret": "00", "parts": []}')
    one, other = peers_of(nodes, meet)
    assert {path.name for path in meet.iterdir()} == {
        "store-0.json", "store-1.json", one.own_file.name, other.own_file.name}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (one.own_file, other.own_file))


def test_what_nobody_has_and_who_does_not_come(job, nodes, tmp_path):
    index = pack_index.read(nodes[0] / "pack.hoi")
    with pytest.raises(DataError, match="1 of 2 nodes' stores have come in 0 s"):
        Peers(index, local_parts(nodes[0], index), Place(2, tmp_path / "alone", 0.3))
    for tar in nodes[1].glob("*.tar"):
        tar.unlink()
    errors = []

    def start(folder):
        try:
            Peers(index, local_parts(folder, index), Place(2, tmp_path / "meet", 60.0))
        except DataError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=start, args=(folder,)) for folder in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 2 and all("on none of the 2 nodes" in error for error in errors)


def test_strangers_get_nothing(job, nodes, tmp_path):
    """Garbage, silence, and a client with another secret, at the port that is open to all."""
    from multiprocessing import AuthenticationError
    from multiprocessing.connection import Client

    asker, home = peers_of(nodes, tmp_path / "meet")
    address = next(peer for homes in asker._homes for peer in homes).address
    silent = [socket.create_connection(address) for _ in range(20)]
    silent[0].sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
    with pytest.raises((AuthenticationError, OSError, EOFError)):
        Client(address, authkey=b"another")
    index = pack_index.read(nodes[0] / "pack.hoi")
    row = int((index.file % 2 == 1).nonzero()[0][0])
    begin = time.monotonic()
    assert len(asker.take_stored(row)) == index.size[row]
    assert time.monotonic() - begin < 60
    for connection in silent:
        connection.close()
    assert home.own_file.exists()
