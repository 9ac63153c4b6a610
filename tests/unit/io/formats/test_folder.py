"""Which files of a folder are samples, and of which classes."""

from __future__ import annotations

import os

import data_sets
import pytest

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import folder


def test_classes_are_the_folders_of_the_first_level(tmp_path):
    data_sets.files(tmp_path, {"b/2.jpg": b"", "a/x/1.jpg": b"", "a-b/1.jpg": b"", "README": b"",
                               ".hidden/1.jpg": b"", "b/.DS_Store": b""})
    (tmp_path / "c").mkdir()
    listing = folder.listing(str(tmp_path))
    assert listing.classes == ("a", "a-b", "b", "c")
    assert listing.files == ["a-b/1.jpg", "a/x/1.jpg", "b/2.jpg"]
    assert listing.labels() == [1, 0, 2]


def test_classes_are_numbered_as_torchvision_does(tmp_path):
    names = ("n02", "N01", "a b", "ü", "10", "9")
    data_sets.files(tmp_path, {f"{name}/{i}.jpg": b"x" for i, name in enumerate(names)})
    # torchvision.datasets.folder.find_classes: sorted(entry.name for entry ... if entry.is_dir())
    theirs = {name: i for i, name in enumerate(sorted(names))}
    ours = folder.listing(str(tmp_path))
    assert ours.labels() == [theirs[path.split("/")[0]] for path in ours.files]
    assert ours.classes == ("10", "9", "N01", "a b", "n02", "ü")


def test_without_folders_there_are_no_classes(tmp_path):
    data_sets.files(tmp_path, {"2.bin": b"", "10.bin": b"", ".x": b""})
    listing = folder.listing(str(tmp_path))
    assert (listing.files, listing.classes, listing.labels()) == (["10.bin", "2.bin"], (), None)


def test_the_order_of_the_file_system_does_not_matter(tmp_path, monkeypatch):
    data_sets.files(tmp_path, {f"{name}/{i}": b"" for name in "abc" for i in range(4)})
    listings, scandir = [], os.scandir

    class Ordered:
        def __init__(self, path, backwards):
            with scandir(path) as entries:
                self._entries = sorted(entries, key=lambda entry: entry.name, reverse=backwards)

        def __enter__(self):
            return iter(self._entries)

        def __exit__(self, *_):
            pass

    for backwards in (False, True):
        monkeypatch.setattr(folder.os, "scandir",
                            lambda path, backwards=backwards: Ordered(path, backwards))
        listings.append(folder.listing(str(tmp_path)))
    assert listings[0] == listings[1] and len(listings[0].files) == 12


def test_links_are_followed(tmp_path):
    data_sets.files(tmp_path / "store", {"1.jpg": b"x"})
    data = tmp_path / "data"
    data.mkdir()
    (data / "a").symlink_to(tmp_path / "store")
    (data / "b").mkdir()
    (data / "b" / "2.jpg").symlink_to(tmp_path / "store" / "1.jpg")
    assert folder.listing(str(data)).files == ["a/1.jpg", "b/2.jpg"]


def test_links_that_cannot_be_followed(tmp_path):
    data_sets.files(tmp_path, {"a/x/1.jpg": b"x"})
    circle = tmp_path / "a" / "x" / "up"
    circle.symlink_to(tmp_path / "a")
    with pytest.raises(DataError, match="up: a link to a folder above itself"):
        folder.listing(str(tmp_path))
    circle.unlink()
    circle.symlink_to(tmp_path / "nothing")
    with pytest.raises(DataError, match="up: neither a file nor a folder, nor a link to one"):
        folder.listing(str(tmp_path))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe: neither a file nor a folder"):
        folder.listing(str(tmp_path))


def test_a_name_that_is_not_utf8(tmp_path):
    with open(os.path.join(os.fsencode(tmp_path), b"a\xff"), "wb"):
        pass
    with pytest.raises(DataError, match=r"a\\udcff': its name is not UTF-8; remedy: rename"):
        folder.listing(str(tmp_path))
