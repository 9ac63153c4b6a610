"""What can be packed, from which sources, and what is refused."""

from __future__ import annotations

import io
import os
import tarfile

import data_sets
import pytest

from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.pack.listing import list_source
from horovod_opt.io.pack.packer import pack
from horovod_opt.io.pack.plan import Options

FILES = {"b/2.jpg": b"two", "a/x/1.jpg": b"one", "a/1.jpg": b"", "README": b"read",
         ".hidden/1": b"h", "a/.DS_Store": b"d"}


def listed(*sources, names=None, strip=0):
    return list_source([str(source) for source in sources], names, strip)


def stored(listing, out):
    """Contents by path, as they are in the tars."""
    index = pack(listing, out, Options(1 << 20)).index
    tars = [(out / name).read_bytes() for name in index.names]
    return {path: tars[file][offset:offset + size] for path, file, offset, size in zip(
        index.paths.strings(), index.file.tolist(), index.offset.tolist(), index.size.tolist())}


def test_a_folder(tmp_path):
    source = data_sets.files(tmp_path / "s", {**FILES, ".horovod-opt-index-1.hoi": b"ours"})
    (source / "c" / "d").mkdir(parents=True)
    listing = listed(source)
    assert listing.paths == sorted(FILES) and listing.folders == ["c/d"]
    assert listing.classes() == ("a", "b", "c")
    labels = dict(zip(listing.paths, listing.labels(listing.classes()).tolist()))
    assert labels == {"b/2.jpg": 1, "a/x/1.jpg": 0, "a/1.jpg": 0, "README": -1, ".hidden/1": -1,
                      "a/.DS_Store": -1}
    assert stored(listing, tmp_path / "out") == FILES


def test_links_are_followed(tmp_path):
    source = data_sets.files(tmp_path / "s", {"a/1.jpg": b"one"})
    data_sets.files(tmp_path / "elsewhere", {"2.jpg": b"two"})
    (source / "b").symlink_to(tmp_path / "elsewhere")
    (source / "a" / "3.jpg").symlink_to("1.jpg")
    assert stored(listed(source), tmp_path / "out") == {
        "a/1.jpg": b"one", "a/3.jpg": b"one", "b/2.jpg": b"two"}


@pytest.mark.parametrize("spoil, text", [
    (lambda s: (s / "a" / "up").symlink_to(s), "a/up: a link to a folder above itself"),
    (lambda s: (s / "a" / "gone").symlink_to("nowhere"), "a/gone: neither a file nor a folder"),
    (lambda s: os.mkfifo(s / "a" / "pipe"), "a/pipe: neither a file nor a folder"),
    (lambda s: open(os.fsencode(s) + b"/a/\xff.jpg", "wb").close(), "its name is not UTF-8")])
def test_folders_that_are_refused(tmp_path, spoil, text):
    source = data_sets.files(tmp_path / "s", FILES)
    spoil(source)
    with pytest.raises(DataError, match=f"{text}.*remedy: "):
        listed(source)


def test_a_folder_that_cannot_be_read(tmp_path):
    source = data_sets.files(tmp_path / "s", FILES)
    os.chmod(source / "a", 0)
    os.chmod(tmp_path, 0o755)
    with data_sets.unprivileged(), pytest.raises(DataError, match="Permission denied|not permit"):
        listed(source)
    os.chmod(source / "a", 0o755)


def test_no_files(tmp_path):
    with pytest.raises(DataError, match="no files"):
        listed(tmp_path)


def test_a_list_of_files(tmp_path):
    source = data_sets.files(tmp_path / "s", FILES)
    names = ["b/2.jpg\n", f"{source}/a/x/1.jpg\n", "\n", "./README"]
    assert stored(listed(source, names=names), tmp_path / "out") == {
        name: FILES[name] for name in ("b/2.jpg", "a/x/1.jpg", "README")}


@pytest.mark.parametrize("name, text", [
    ("../s/b/2.jpg/../../../x", "line 2 of the list: .* is not in"), ("/etc/passwd", "is not in"),
    ("a/1.jpg", "line 2 of the list: 'a/1.jpg' was in line 1 already"), ("a", "not a file"),
    ("a/9.jpg", "cannot be read: No such file"), ("\udcff", "line 2 of the list: .* not UTF-8")])
def test_lists_that_are_refused(tmp_path, name, text):
    source = data_sets.files(tmp_path / "s", FILES)
    with pytest.raises(DataError, match=text):
        listed(source, names=["a/1.jpg\n", name])


def test_tars_of_another_layout(tmp_path):
    data_sets.tar(tmp_path / "1.tar", [(f"./set/{name}", FILES[name]) for name in
                                       ("b/2.jpg", "README")])
    folder = tarfile.TarInfo("set/c/")
    folder.type = tarfile.DIRTYPE
    data_sets.tar(tmp_path / "2.tar", [("set/a/1.jpg", b""), folder,
                                       ("set/a/x/1.jpg", b"one"), ("top", b"left out")])
    listing = listed(tmp_path / "*.tar", strip=1)
    assert listing.classes() == ("a", "b", "c") and listing.folders == ["c"]
    assert stored(listing, tmp_path / "out") == {
        name: FILES[name] for name in ("b/2.jpg", "README", "a/x/1.jpg", "a/1.jpg")}


def test_times_and_modes_of_members_are_kept(tmp_path):
    info = tarfile.TarInfo("a/1.jpg")
    info.size, info.mtime, info.mode = 3, 12345, 0o640
    with tarfile.open(tmp_path / "1.tar", "w") as archive:
        archive.addfile(info, io.BytesIO(b"one"))
    listing = listed(tmp_path / "1.tar")
    assert (listing.mtimes_ns, listing.modes) == ([12345 * 10**9], [0o640])


def member(name, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize("members, text", [
    ([member("a", tarfile.SYMTYPE, "/etc/passwd")], "it is a link to '/etc/passwd'"),
    ([member("a", tarfile.LNKTYPE, "b")], "it is a link to 'b'"),
    ([member("a", tarfile.FIFOTYPE)], "neither a file nor a folder"),
    ([member("../a")], "leaves the archive"), ([member("/a")], "leaves the archive"),
    ([member("a"), member("a")], "this name comes twice"),
    ([member("a"), member("./a")], "is also in"), ([member("a"), member("a/b")], "is a file in"),
    ([member("n" * 256)], "more than 255 bytes"), ([member("a\udcff")], "not UTF-8")])
def test_tars_that_are_refused(tmp_path, members, text):
    data_sets.tar(tmp_path / "1.tar", members)
    with pytest.raises(DataError, match=text):
        listed(tmp_path / "1.tar")


def test_a_path_of_2000_bytes(tmp_path):
    path = "/".join("d" * 250 for _ in range(8)) + "/ü.jpg"
    data_sets.tar(tmp_path / "1.tar", [(path, b"deep")])
    assert stored(listed(tmp_path / "1.tar"), tmp_path / "out") == {path: b"deep"}
    assert listed(tmp_path / "out" / "part-000000.tar").paths == [path]


def test_a_list_and_tars(tmp_path):
    data_sets.tar(tmp_path / "1.tar", [("a", b"")])
    with pytest.raises(InputError, match="a list of files is of one folder"):
        listed(tmp_path / "1.tar", names=["a"])
