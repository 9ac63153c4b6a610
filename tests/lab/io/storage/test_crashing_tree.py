"""What a crash leaves of files and folders, without any mount."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_lab.io.storage.crashing_tree import CrashingTree, File, Folder

MIB = 1 << 20
SEEDS = range(100)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_bytes(b"sub")
    return CrashingTree(tmp_path, MIB)


def create(tree: CrashingTree, folder: Folder, name: bytes, data: bytes) -> File:
    file = tree.new_file(0o100644, 0, 0)
    tree.link(file, folder, name)
    tree.write(file, 0, data)
    return file


def listed(folder: Folder) -> dict:
    """Names with contents."""
    return {name: listed(node) if isinstance(node, Folder) else node.content.read(0, MIB)
            for name, node in folder.entries.items()}


def after(tree: CrashingTree, seed=None) -> dict:
    tree.crash(seed)
    return listed(tree.root)


def test_it_begins_with_what_is_there_and_leaves_that_as_it_is(tree, tmp_path):
    tree.write(tree.root.entries[b"old"], 1, b"!!")
    assert listed(tree.root) == {b"old": b"o!!", b"sub": {b"file": b"sub"}}
    assert after(tree) == {b"old": b"old", b"sub": {b"file": b"sub"}}
    assert (tmp_path / "old").read_bytes() == b"old"


@pytest.mark.parametrize("syncs_file", [False, True])
@pytest.mark.parametrize("syncs_folder", [False, True])
def test_data_and_names_last_each_for_itself(tree, syncs_file, syncs_folder):
    sub = tree.root.entries[b"sub"]
    file = create(tree, sub, b"new", b"data")
    if syncs_file:
        file.sync()
    if syncs_folder:
        sub.sync()
    expected = {b"new": b"data" if syncs_file else b""} if syncs_folder else {}
    assert after(tree)[b"sub"] == {b"file": b"sub", **expected}


def test_what_was_synced_last_counts(tree):
    file = tree.root.entries[b"old"]
    tree.write(file, 0, b"new")
    file.sync()
    tree.write(file, 3, b"er")
    tree.truncate(file, 1)
    assert after(tree)[b"old"] == b"new"
    assert after(tree)[b"old"] == b"new"


def test_changes_of_names_that_were_not_synced_are_undone(tree):
    root, sub = tree.root, tree.root.entries[b"sub"]
    tree.rename(root, b"old", root, b"other", True)
    tree.link(root.entries[b"other"], sub, b"second")
    tree.unlink(sub, b"file")
    tree.rename(root, b"sub", root, b"moved", True)
    assert listed(root) == {b"other": b"old", b"moved": {b"second": b"old"}}
    assert after(tree) == {b"old": b"old", b"sub": {b"file": b"sub"}}
    assert root.entries[b"old"].links == 1


@pytest.mark.parametrize("synced, expected", [
    ("", {b"old": b"old", b"sub": {b"file": b"sub"}}),
    ("new", {b"old": b"old", b"sub": {b"file": b"old"}}),
    ("old", {b"sub": {b"file": b"sub"}}),  # the file has no name any more
    ("new, old", {b"sub": {b"file": b"old"}})])
def test_a_rename_between_folders_takes_two_syncs(tree, synced, expected):
    root, sub = tree.root, tree.root.entries[b"sub"]
    tree.rename(root, b"old", sub, b"file", True)
    if "new" in synced:
        sub.sync()
    if "old" in synced:
        root.sync()
    assert after(tree) == expected


def test_a_folder_that_has_moved_is_in_one_place(tree):
    root = tree.root
    target = tree.new_folder(root, b"target", 0o40755, 0, 0)
    root.sync()
    tree.rename(root, b"sub", target, b"sub", True)
    target.sync()
    assert after(tree) == {b"old": b"old", b"target": {b"sub": {b"file": b"sub"}}}
    assert root.entries[b"target"].entries[b"sub"].parent is root.entries[b"target"]


def test_folders_that_change_places_do_not_surround_each_other(tree):
    root, sub = tree.root, tree.root.entries[b"sub"]
    other = tree.new_folder(root, b"other", 0o40755, 0, 0)
    root.sync()
    tree.rename(root, b"sub", other, b"sub", True)
    other.sync()
    tree.rename(other, b"sub", root, b"sub", True)
    tree.rename(root, b"other", sub, b"other", True)
    sub.sync()
    assert after(tree) == {b"old": b"old", b"sub": {b"file": b"sub", b"other": {}}}


def test_a_new_folder_without_a_name_that_lasts_is_lost_with_all_in_it(tree):
    folder = tree.new_folder(tree.root, b"new", 0o40755, 0, 0)
    create(tree, folder, b"file", b"data").sync()
    folder.sync()
    assert b"new" not in after(tree)


def test_by_chance_what_was_not_synced_may_last_in_any_combination(tree):
    seen = set()
    for seed in SEEDS:
        root = tree.root
        for name in (b"a", b"b"):
            create(tree, root, name, b"data")
        found = after(tree, seed)
        assert found.pop(b"old") == b"old" and found.pop(b"sub") == {b"file": b"sub"}
        assert set(found.values()) <= {b"", b"data"}
        seen.add((found.get(b"a"), found.get(b"b")))
        for name in found:
            tree.unlink(root, name)
        root.sync()
    assert len(seen) == 9


def test_by_chance_too_what_was_synced_is_there_and_a_rename_loses_no_file(tree):
    seen = set()
    for seed in SEEDS:
        root, sub = tree.root, tree.root.entries[b"sub"]
        create(tree, root, b"synced", b"data").sync()
        root.sync()
        tree.rename(root, b"synced", sub, b"between", True)
        tree.rename(sub, b"between", sub, b"end", True)
        found = after(tree, seed)
        places = {name: data for name, data in [*found.items(), *found[b"sub"].items()]
                  if name in (b"synced", b"between", b"end")}
        assert places and set(places.values()) == {b"data"}
        seen.add(frozenset(places))
        for name in places:
            tree.unlink(root if name == b"synced" else sub, name)
        root.sync(), sub.sync()
    assert {frozenset([b"synced"]), frozenset([b"end"])} <= seen


# Of a folder and a name in it, and for a rename or a link another one.
SPOTS = st.tuples(st.integers(0, 3), st.sampled_from([b"x", b"y"]))
STEPS = st.lists(st.tuples(
    st.sampled_from(["create", "folder", "write", "link", "unlink", "remove folder", "sync",
                     "sync folder", "rename", "rename", "rename"]), SPOTS, SPOTS), max_size=25)


def step(tree: CrashingTree, what: str, spot, other) -> None:
    """If it can be done: folders are those that are there."""
    folders = reached(tree)
    (folder, name), (to, new) = ((folders[number % len(folders)], name)
                                 for number, name in (spot, other))
    node = folder.entries.get(name)
    with suppress(OSError):
        if what == "create":
            create(tree, folder, name, b"data")
        elif what == "folder":
            tree.new_folder(folder, name, 0o40755, 0, 0)
        elif what == "sync folder":
            folder.sync()
        elif what == "remove folder":
            tree.remove_folder(folder, name)
        elif what == "rename":
            tree.rename(folder, name, to, new, True)
        elif isinstance(node, File):
            if what == "write":
                tree.write(node, 0, b"more")
            elif what == "link":
                tree.link(node, to, new)
            elif what == "unlink":
                tree.unlink(folder, name)
            else:
                node.sync()


def reached(tree: CrashingTree) -> list:
    """The folders."""
    found = [tree.root]
    for folder in found:
        found += [node for _, node in sorted(folder.entries.items()) if isinstance(node, Folder)]
    return found


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 1 << 32))
def test_by_chance_too_what_was_synced_and_not_changed_is_there(tmp_path_factory, steps, seed):
    empty = tmp_path_factory.getbasetemp() / "empty"
    empty.mkdir(exist_ok=True)
    tree = CrashingTree(empty, MIB)
    for one in steps:
        step(tree, *one)
    durable, folders = {}, [tree.root]
    for folder in folders:
        durable[folder] = dict(folder.durable)
        folders += [node for node in folder.durable.values() if isinstance(node, Folder)]
    changed = {folder: {name for names in folder.changes for name in names} for folder in folders}
    contents = {}
    for node in {node for names in durable.values() for node in names.values()}:
        if isinstance(node, File):
            contents[node] = node.links, (node.content.read(0, 9), node.durable[1].read(0, 9))
    is_removed = {folder: folder.is_removed for folder in folders}
    tree.crash(seed)
    left = reached(tree)
    files = {node for folder in left for node in folder.entries.values() if isinstance(node, File)}
    assert len(set(left)) == len(left)
    assert all(folder in left for folder in folders if not is_removed[folder])
    for file, (links, possible) in contents.items():
        assert file in files or not links
        assert file not in files or file.content.read(0, 9) in possible
    for folder, names in durable.items():
        for name, node in names.items():
            if folder in left and name not in changed[folder] and isinstance(node, File):
                assert folder.entries[name] is node


def test_the_same_seed_leaves_the_same(tmp_path):
    found = []
    for _ in range(2):
        tree = CrashingTree(tmp_path, MIB)
        for number in range(20):
            create(tree, tree.root, b"%d" % number, b"data")
        found.append(after(tree, 7))
    assert found[0] == found[1] and 0 < len(found[0]) < 20


def test_what_is_gone_takes_no_capacity(tree):
    file = create(tree, tree.root, b"large", bytes(MIB))
    with pytest.raises(OSError) as refused:
        tree.write(file, MIB, b"1")
    assert refused.value.errno == errno.ENOSPC and tree.free == 0
    tree.write(file, 0, b"again")
    file.opens = 1
    tree.unlink(tree.root, b"large")
    assert tree.free == 0
    file.opens = 0
    assert tree.free == tree.blocks
