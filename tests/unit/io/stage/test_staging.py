"""horovod-opt io stage: who gets which tars, from where, and what becomes of interruptions."""

from __future__ import annotations

import os
import re
import shutil

import data_sets
import pytest
import servers
from hypothesis import given
from hypothesis import strategies as st

import horovod_opt.io as hio
from horovod_opt import cli
from horovod_opt.io.commands.stage_command import node_of_launcher
from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.index import pack_index
from horovod_opt.io.pack.listing import list_source
from horovod_opt.io.pack.packer import pack
from horovod_opt.io.pack.plan import Options
from horovod_opt.io.stage import fetch, staging
from horovod_opt.io.stage.source import open_source
from horovod_opt.io.stage.staging import Share, remove, stage

FILES = {f"{folder}/{name}/{i}.jpg": f"{folder} {name} {i} ".encode() * 99
         for folder in ("train", "val") for name in "ab" for i in range(20)}


@pytest.fixture(autouse=True)
def _unsynced(unsynced):
    """Nothing crashes here."""


@pytest.fixture(params=[None, 3], ids=["plain", "zstd"])
def packed(request, tmp_path):
    """A folder with the pack `p`, of some tars."""
    source = data_sets.files(tmp_path / "source", FILES)
    os.chmod(source / "val" / "a" / "3.jpg", 0o640)
    pack(list_source([str(source)], None, 0), tmp_path / "served" / "p",
         Options(24 << 10, 0, request.param))
    assert len(list((tmp_path / "served" / "p").glob("*.tar"))) > 3
    return tmp_path / "served"


def io_stage(capsys, *arguments):
    status = cli.main(["io", "stage", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def staged(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.name not in (staging.LOCK, staging.NOTE)}


@given(nodes=st.integers(1, 9), replicas=st.integers(1, 9), count=st.integers(1, 40))
def test_each_tar_has_its_homes(nodes, replicas, count):
    replicas = min(nodes, replicas)
    shares = [set(Share(node, nodes, replicas).parts(count)) for node in range(nodes)]
    for k in range(count):
        assert {node for node in range(nodes) if k in shares[node]} == {
            (k + behind) % nodes for behind in range(replicas)}


@pytest.mark.parametrize("kind", servers.KINDS)
def test_from_everywhere(packed, tmp_path, monkeypatch, kind, capsys):
    expected = staged(packed / "p")
    with servers.served(kind, packed, monkeypatch) as address:
        status, out, err = io_stage(capsys, f"{address}/p", "--to", tmp_path / "to")
        assert (status, err) == (0, "")
        assert re.match(r"Node 0 of 1: (\d+) of \1 tars in .*to, .* fetched$", out)
        assert staged(tmp_path / "to") == expected
        assert ", 0 bytes fetched" in io_stage(capsys, f"{address}/p", "--to", tmp_path / "to")[1]
    with hio.open(tmp_path / "to") as data:
        assert len(data) == len(FILES)


def test_nodes_with_replicas(packed, tmp_path, capsys):
    whole = staged(packed / "p")
    for node in range(3):
        status, out, _ = io_stage(capsys, packed / "p", "--to", tmp_path / str(node), "--nodes",
                                  3, "--node", node, "--replicas", 2)
        assert status == 0 and out.startswith(f"Node {node} of 3: ")
    parts = sorted(name for name in whole if name.endswith(".tar"))
    for k, name in enumerate(parts):
        for node in range(3):
            path = tmp_path / str(node) / name
            assert path.exists() == (node in (k % 3, (k + 1) % 3))
            assert not path.exists() or path.read_bytes() == whole[name]
    with pytest.raises(DataError, match="are missing or cut.*io stage --replicas all"):
        hio.open(tmp_path / "0")
    io_stage(capsys, packed / "p", "--to", tmp_path / "0", "--nodes", 3, "--node", 0, "--replicas",
             "all")
    assert staged(tmp_path / "0") == whole


def test_a_folder_that_each_node_has_as_files(packed, tmp_path, capsys):
    to, source = tmp_path / "to", tmp_path / "source"
    with servers.web_server(packed) as (address, requests):
        arguments = (f"{address}/p", "--to", to, "--nodes", 2, "--node", 1, "--replicate", "val/")
        status, out, err = io_stage(capsys, *arguments)
        assert (status, err) == (0, "") and out.endswith(", 40 files written\n")
        for path in (source / "val").rglob("*.jpg"):
            ours = to / path.relative_to(source)
            assert ours.read_bytes() == path.read_bytes()
            assert ours.stat().st_mtime_ns == path.stat().st_mtime_ns
            assert ours.stat().st_mode == path.stat().st_mode
        assert not (to / "train").exists()
        (to / "val" / "b" / "7.jpg").unlink()
        del requests[:]
        assert io_stage(capsys, *arguments)[1].endswith(", 1 files written\n")
        assert requests.bytes("part-") < 2000
    assert io_stage(capsys, packed / "p", "--to", to, "--replicate", "test")[0::2] == (
        2, "horovod-opt io stage: --replicate test: the pack has no such folder; remedy: one of "
        f"its folders, as {os.path.dirname(pack_index.read(to / 'pack.hoi').paths[0])}\n")


def test_an_interrupted_one_goes_on(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fetch, "PIECE", 1000)
    to, expected = tmp_path / "to", staged(packed / "p")
    size = sum(map(len, expected.values()))
    with servers.web_server(packed) as (address, requests):
        for part in range(1, 8):
            requests.allowed = size * part // 8
            status, _, err = io_stage(capsys, f"{address}/p", "--to", to, "--threads", 2)
            assert status == 1 and "503" in err and "what was staged stays, so start again" in err
        requests.allowed = 1 << 60
        assert io_stage(capsys, f"{address}/p", "--to", to)[0] == 0
        # Each time the index; of the tars, each byte once.
        assert requests.bytes("part-") == size - len(expected["pack.hoi"])
    assert staged(to) == expected


@pytest.mark.parametrize("spoil", ["flip", "cut", "grow"])
def test_other_bytes_never_get_a_name(packed, tmp_path, capsys, spoil):
    path = packed / "p" / "part-000001.tar"
    whole = path.read_bytes()
    path.write_bytes({"flip": whole[:700] + bytes([whole[700] ^ 1]) + whole[701:],
                      "cut": whole[:-1000], "grow": whole + b"more"}[spoil])
    status, _, err = io_stage(capsys, packed / "p", "--to", tmp_path / "to")
    if spoil == "grow":
        assert status == 0 and (tmp_path / "to" / path.name).read_bytes() == whole
        return
    assert status == 1 and "part-000001.tar: " in err and "remedy: start again" in err
    assert not (tmp_path / "to" / path.name).exists()
    path.write_bytes(whole)
    assert io_stage(capsys, packed / "p", "--to", tmp_path / "to")[0] == 0
    assert (tmp_path / "to" / path.name).read_bytes() == whole


def test_remove_leaves_what_it_did_not_bring(packed, tmp_path, capsys):
    to = data_sets.files(tmp_path / "to", {"mine.txt": b"mine", "val/mine.txt": b"too"})
    io_stage(capsys, packed / "p", "--to", to, "--replicate", "val", "--replicate", "train/a")
    assert io_stage(capsys, "--to", to, "--remove")[0] == 0
    assert staged(to) == {"mine.txt": b"mine", "val/mine.txt": b"too"}
    (to / "mine.txt").unlink()
    shutil.rmtree(to / "val")
    io_stage(capsys, packed / "p", "--to", to, "--replicate", "val")
    assert io_stage(capsys, "--to", to, "--remove")[1].endswith(f"removed from {to}\n")
    assert not to.exists()
    assert io_stage(capsys, "--to", to, "--remove")[:2] == (0, f"0 bytes removed from {to}\n")


def test_remove_of_an_interrupted_one(packed, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fetch, "PIECE", 1000)
    with servers.web_server(packed) as (address, requests):
        requests.allowed = sum(map(len, staged(packed / "p").values())) // 2
        assert io_stage(capsys, f"{address}/p", "--to", tmp_path / "to")[0] == 1
    assert len(staged(tmp_path / "to")) > 1
    io_stage(capsys, "--to", tmp_path / "to", "--remove")
    assert not (tmp_path / "to").exists()


def test_there_is_no_room(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 1000))
    with pytest.raises(DataError, match="are to be staged, but 1000 bytes are free; remedy: make"):
        stage(open_source(str(packed / "p")), tmp_path / "to")


def test_another_pack_and_other_tars(packed, tmp_path, capsys):
    data_sets.files(tmp_path / "other", {"a.jpg": b"other"})
    pack(list_source([str(tmp_path / "other")], None, 0), tmp_path / "q", Options(1 << 20))
    io_stage(capsys, packed / "p", "--to", tmp_path / "to")
    status, _, err = io_stage(capsys, tmp_path / "q", "--to", tmp_path / "to")
    assert status == 1 and "another pack was staged there; remedy: horovod-opt io stage" in err
    data_sets.files(tmp_path / "t", {"part-000000.tar": b"mine"})
    status, _, err = io_stage(capsys, packed / "p", "--to", tmp_path / "t")
    assert status == 1 and "there is part-000000.tar in it, of no pack" in err
    assert staged(tmp_path / "t") == {"part-000000.tar": b"mine"}


def test_a_forged_index_leads_nowhere(packed, tmp_path):
    from dataclasses import replace

    from horovod_opt.io.formats.columns import Texts

    index = pack_index.read(packed / "p" / "pack.hoi")
    paths = [path.replace("val/", "val/../../", 1) for path in index.paths.strings()]
    forged = replace(index, paths=Texts.of(path.encode() for path in paths))
    (packed / "p" / "pack.hoi").write_bytes(b"".join(forged.pieces()))
    with pytest.raises(DataError, match="which leads out of its folder"):
        stage(open_source(str(packed / "p")), tmp_path / "to" / "here", replicate=["val"])
    assert not (tmp_path / "to" / "a").exists() and not (tmp_path / "a").exists()


def test_a_full_disk(packed, tmp_path, capsys):
    """A file of 10 KiB is the most that this process may write."""
    import resource
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 10, before[1]))
        status, _, err = io_stage(capsys, packed / "p", "--to", tmp_path / "to")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert status == 1 and "to: cannot be written to: File too large; remedy" in err
    assert io_stage(capsys, packed / "p", "--to", tmp_path / "to")[0] == 0
    assert staged(tmp_path / "to") == staged(packed / "p")


@pytest.mark.parametrize("arguments, status, text", [
    (["--to", "{to}"], 2, "give either a pack, or --remove"),
    (["{p}", "--to", "{to}", "--node", "1"], 2, "--node and --nodes belong together"),
    (["{p}", "--to", "{to}", "--node", "2", "--nodes", "2"], 2, "a number from 0 to 1"),
    (["{p}", "--to", "{to}", "--replicas", "2"], 2, "--replicas 2, with 1 nodes; remedy"),
    (["{p}/none", "--to", "{to}"], 1, "pack.hoi: no such file, so .* is no pack"),
    (["http://127.0.0.1:9/p", "--to", "{to}"], 1, "cannot be read: .*remedy: correct the address"),
    (["no-such://x/p", "--to", "{to}"], 2, "cannot be opened: .*remedy: pip install")])
def test_arguments(packed, tmp_path, capsys, arguments, status, text):
    result = io_stage(capsys, *(argument.format(p=packed / "p", to=tmp_path / "to")
                                for argument in arguments))
    assert result[0] == status and re.search(text, result[2]), result


def test_no_fsspec(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(InputError, match=r"needs fsspec.*pip install 'horovod-opt\[remote\]'"):
        open_source("https://x/y")


@pytest.mark.parametrize("environment, node", [
    ({}, (0, 1)), ({"SLURM_NODEID": "0", "SLURM_NNODES": "4"}, (0, 1)),
    ({"SLURM_NODEID": "3", "SLURM_STEP_NUM_NODES": "4"}, (3, 4)),
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2",
      "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, (1, 2)),
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2",
      "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, (0, 1)),
    ({"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALNRANKS": "1"}, (1, 3))])
def test_nodes_of_launchers(environment, node):
    assert node_of_launcher(environment) == node


def test_remove_removes_nothing_of_a_pack_that_was_made_there(packed):
    """--remove is for what was staged."""
    before = staged(packed / "p")
    with pytest.raises(DataError, match="was not staged there, but made"):
        remove(packed / "p")
    assert staged(packed / "p") == before
