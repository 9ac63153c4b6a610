"""horovod-opt pack: the tars, what else reads them, and whoever is interrupted."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import subprocess
import tarfile

import data_sets
import pytest
import webdataset
from hypothesis import given, settings
from hypothesis import strategies as st

import horovod_opt.io as hio
from horovod_opt import cli
from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import folder
from horovod_opt.io.formats.tar import stem_of
from horovod_opt.io.index import pack_index
from horovod_opt.io.pack import packer
from horovod_opt.io.pack.listing import list_source
from horovod_opt.io.pack.packer import pack
from horovod_opt.io.pack.plan import Options

CLASSES = ("bird", "cat", "ü dog")
# By which an interruption is told from the next: what a pack does to the file system.
STEPS = ("fsync", "rename", "replace")
KILLED_SIZE = 30_000  # few tars, as there is a process for each step


@pytest.fixture(autouse=True, scope="module")
def _unsynced():
    """Nobody crashes here but processes, and syncing takes time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def source(tmp_path):
    return data_sets.files(tmp_path / "source", {
        **{f"{name}/{i:03d}.{part}": f"{name} {i} {part}".encode() * (7 * i)
           for name in CLASSES for i in range(12) for part in ("jpg", "json")},
        "README": b"about these", ".hidden/x.jpg": b"h", "cat/.DS_Store": b"d",
        "cat/deeper/000.jpg": b"below", "cat/deeper/000.json": b"{}"})


def packed(source, out, size=8192, **options):
    listing = list_source([str(source)], None, 0)
    return pack(listing, out, Options(size, options.pop("seed", 0), options.pop("level", None)),
                **options)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


def run(capsys, *arguments):
    status = cli.main(["pack", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_gnu_tar_gives_the_folder_back(source, tmp_path):
    (source / "empty" / "folder").mkdir(parents=True)
    os.utime(source / "README", ns=(0, -5 * 10**9))  # before 1970
    (source / "cat" / "000.jpg").chmod(0o755)
    packed(source, tmp_path / "out")
    (tmp_path / "back").mkdir()
    tars = sorted((tmp_path / "out").glob("*.tar"))
    assert len(tars) > 3
    for path in tars:
        subprocess.run(["tar", "xf", path, "-C", tmp_path / "back"], check=True)
        assert path.stat().st_size <= 8192 + 10240
    assert contents(tmp_path / "back") == contents(source)
    assert (tmp_path / "back" / "empty" / "folder").is_dir()
    assert (tmp_path / "back" / "README").stat().st_mtime == -5
    assert (tmp_path / "back" / "cat" / "000.jpg").stat().st_mode & 0o777 == 0o755


def test_webdataset_finds_each_sample_once(source, tmp_path):
    packed(source, tmp_path / "out")
    shards = sorted(map(str, (tmp_path / "out").glob("*.tar")))
    found = {}
    for sample in webdataset.WebDataset(shards, shardshuffle=False, empty_check=False):
        if "jpg" in sample and "json" in sample:
            assert sample["__key__"] not in found
            found[sample["__key__"]] = (sample["jpg"], sample["json"])
    whole = contents(source)
    assert found == {name[:-4]: (whole[name], whole[name[:-3] + "json"]) for name in whole
                     if name.endswith(".jpg") and "hidden" not in name}


def test_hio_opens_the_tars_as_webdataset_does(tmp_path, source):
    shutil.rmtree(source / ".hidden")
    packed(source, tmp_path / "out")
    with hio.open(tmp_path / "out" / "*.tar", index=tmp_path / "i.hoi") as data:
        assert data.index.parts in (("jpg", "json"), ("json", "jpg")) and len(data) == 37


@pytest.mark.parametrize("level", [None, 3])
def test_samples_and_labels_are_those_of_the_folder(source, tmp_path, level):
    packed(source, tmp_path / "out", level=level)
    with hio.open(source, index=tmp_path / "i.hoi") as data:
        expected = {data.index.key(i): int(data.index.label[i]) for i in range(len(data))}
        classes = data.classes
    with hio.open(tmp_path / "out") as data:
        assert data.classes == classes == CLASSES
        assert {data.index.key(i): int(data.index.label[i]) for i in range(len(data))} == expected
        assert (data.index.raw_size is None) == (level is None)


def test_neighbours_differ_in_class(source, tmp_path):
    index = packed(source, tmp_path / "out").index
    labels = index.label[:index.samples].tolist()
    changes = sum(a != b for a, b in zip(labels, labels[1:]))
    assert changes > 15  # sorted by class: 2
    assert packed(source, tmp_path / "other", seed=1).index.paths.strings() != (
        index.paths.strings())


@settings(max_examples=25)
@given(st.data())
def test_any_folder(tmp_path_factory, data):
    """Paths, sizes, options: the tars hold each file once, with the same bytes, files of a stem
    are neighbours, and hio.open has what it has of the folder."""
    root = tmp_path_factory.mktemp("any")
    names = data.draw(st.lists(st.text("ab.- ü", min_size=1, max_size=4).filter(
        lambda name: name.strip(".") and not name.startswith(".")), min_size=1, max_size=12,
        unique=True))
    above = data.draw(st.lists(st.sampled_from(["", "x", "y/z", "y." + "n" * 200]),
                                 min_size=len(names), max_size=len(names)))
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 511, 512, 3000]), min_size=len(names),
                               max_size=len(names)))
    files = {os.path.join(above_it, f"{name}~"): name.encode()[:1] * size  # no file is a folder
             for above_it, name, size in zip(above, names, sizes)}
    data_sets.files(root / "source", files)
    out = root / "out"
    packed(root / "source", out, size=data.draw(st.integers(1, 6000)),
           seed=data.draw(st.integers(0, 3)), level=data.draw(st.sampled_from([None, 1, 19])),
           threads=data.draw(st.integers(1, 3)))
    index = pack_index.read(out / pack_index.NAME)
    members = []
    for name in index.names:
        with tarfile.open(out / name) as archive:
            members += [member.name for member in archive if member.isfile()]
    assert sorted(member.removesuffix(".zst") for member in members) == sorted(files)
    assert index.paths.strings() == [member.removesuffix(".zst") for member in members]
    stems = [stem_of(path)[0] or path for path in index.paths.strings()]
    assert sum(a != b for a, b in zip(stems, stems[1:])) == len(set(stems)) - 1
    theirs, samples = folder.listing(str(root / "source")), index.paths.strings()[:index.samples]
    assert sorted(samples) == theirs.files and index.classes == theirs.classes
    if theirs.classes:
        labels = dict(zip(samples, index.label.tolist()))
        assert [labels[path] for path in theirs.files] == theirs.labels()


def _die_at(step, source, out, level):
    """Packs in a process that ends before its n-th change of the file system."""
    calls = [0]

    def counted(function):
        def call(*arguments, **options):
            calls[0] += 1
            if calls[0] == step:
                os._exit(9)
            function(*arguments, **options)
        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    packed(source, out, KILLED_SIZE, level=level)


@pytest.mark.parametrize("level", [None, 3])
def test_killed_at_any_point_and_run_again(source, tmp_path, level):
    packed(source, tmp_path / "whole", KILLED_SIZE, level=level)
    expected = contents(tmp_path / "whole")
    fork, step, kept = multiprocessing.get_context("fork"), 0, set()
    while True:
        step += 1
        out = tmp_path / f"out{step}"
        process = fork.Process(target=_die_at, args=(step, source, out, level))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == 9
        kept.add(len(expected) - 1 - packed(source, out, KILLED_SIZE, level=level).written)
        assert contents(out) == expected
    assert step > 15 and kept == set(range(len(expected)))  # from none to all of the tars


def test_of_an_interrupted_pack_only_what_changed_is_written_again(source, tmp_path, monkeypatch):
    publish = packer._publish

    def fail(path, data):
        if path.name == pack_index.NAME:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        publish(path, data)

    monkeypatch.setattr(packer, "_publish", fail)
    with pytest.raises(DataError, match="No space left.*remedy: make room; the same command"):
        packed(source, tmp_path / "out")
    monkeypatch.undo()
    tars = len(list((tmp_path / "out").glob("part-*.tar")))
    (source / "cat" / "003.jpg").write_bytes(b"other")
    assert 0 < packed(source, tmp_path / "out").written < tars
    packed(source, tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_tar_that_was_lost_is_made_again(source, tmp_path):
    packed(source, tmp_path / "out")
    expected = contents(tmp_path / "out")
    (tmp_path / "out" / "part-000001.tar").unlink()
    assert packed(source, tmp_path / "out").written == 1
    assert contents(tmp_path / "out") == expected
    assert packed(source, tmp_path / "out").written == 0


def test_there_is_no_room(source, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 1000))
    with pytest.raises(DataError, match=r"KiB are to be written, but 1000 bytes are free"):
        packed(source, tmp_path / "out")


def test_other_things_are_left_alone(source, tmp_path):
    out = data_sets.files(tmp_path / "out", {"part-000000.tar": b"somebody's"})
    with pytest.raises(DataError, match="there is part-000000.tar in it; remedy: a new or empty"):
        packed(source, out)
    assert (out / "part-000000.tar").read_bytes() == b"somebody's"


def test_a_pack_of_other_files_is_kept(source, tmp_path):
    packed(source, tmp_path / "out")
    expected = contents(tmp_path / "out")
    (source / "cat" / "new.jpg").write_bytes(b"x")
    with pytest.raises(DataError, match="a pack of other files"):
        packed(source, tmp_path / "out")
    assert contents(tmp_path / "out") == expected


def test_a_file_that_changes_meanwhile(source, tmp_path):
    listing = list_source([str(source)], None, 0)
    (source / "cat" / "003.jpg").write_bytes(b"changed")
    with pytest.raises(DataError, match="cat/003.jpg: it changed while it was packed"):
        pack(listing, tmp_path / "out", Options(8192))


def test_large_files_are_copied_piece_by_piece(tmp_path, monkeypatch):
    from horovod_opt.io.pack import contents as reading

    source = data_sets.files(tmp_path / "s", {"a.bin": os.urandom(9000), "b.bin": b"b" * 9000,
                                              "c.bin": b"c"})
    for level in (None, 3):
        packed(source, tmp_path / f"whole{level}", level=level)
    monkeypatch.setattr(reading, "LARGE", 5000)
    monkeypatch.setattr(reading, "PIECE", 1000)
    packed(source, tmp_path / "outNone")
    assert contents(tmp_path / "outNone") == contents(tmp_path / "wholeNone")
    index = packed(source, tmp_path / "out3", level=3).index
    sizes = dict(zip(index.paths.strings(), zip(index.raw_size.tolist(), index.size.tolist())))
    assert sizes["a.bin"] == (9000, 9000) and sizes["b.bin"][1] < 100


def test_a_name_that_compression_would_make_twice(tmp_path):
    source = data_sets.files(tmp_path / "s", {"a.txt": b"a" * 5000, "a.txt.zst": b"z" * 5000,
                                              "b.txt": b"b" * 5000})
    index = packed(source, tmp_path / "out", size=1 << 20, level=3).index
    with tarfile.open(tmp_path / "out" / "part-000000.tar") as archive:
        assert sorted(archive.getnames()) == ["a.txt", "a.txt.zst.zst", "b.txt.zst"]
    assert index.is_compressed


def test_the_command(source, tmp_path, capsys):
    out = tmp_path / "out"
    status, text, err = run(capsys, source, out, "--part-size", "8KiB")
    assert (status, err) == (0, "")
    assert text.startswith("Packed: 77 files, 3 classes, 74 of them samples, ")
    assert run(capsys, source, out, "--part-size", "8KiB")[1].startswith("Up to date: 77 files")
    assert run(capsys, source, out, "--verify")[:2] == (0, "77 files compared, 0 differences\n")
    assert cli.main(["io", "verify", str(out)]) == 0
    assert "74 samples in" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, status, text", [
    (["{source}", "{source}/out"], 2, "OUT .* is in .*, which is packed; remedy: a folder beside"),
    (["{source}", "{out}", "--zstd", "99"], 2, "--zstd 99; remedy: a level from 1 to 19"),
    (["{source}", "{out}", "--part-size", "lots"], 2, "'lots' is no amount"),
    (["{source}", "{out}", "--strip-components", "1"], 2, "--strip-components 1 is for tars"),
    (["{source}", "{out}", "--files", "/no/list"], 2, "--files /no/list: No such file"),
    (["{source}/*.tar", "{out}"], 1, "no such files"),
    (["{source}/README", "{out}"], 1, "neither TFRecord, tar nor LMDB")])
def test_arguments(source, tmp_path, capsys, arguments, status, text):
    import re

    result = run(capsys, *(argument.format(source=source, out=tmp_path / "out")
                           for argument in arguments))
    assert result[0] == status and re.search(text, result[2]), result
    assert not (tmp_path / "out").exists()
