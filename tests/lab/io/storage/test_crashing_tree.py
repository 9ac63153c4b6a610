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


def list_folder(folder: Folder) -> dict:
    """Names with contents."""
    return {name: list_folder(node) if isinstance(node, Folder) else node.content.read(0, MIB)
            for name, node in folder.entries.items()}


def after(tree: CrashingTree, seed=None) -> dict:
    tree.crash(seed)
    return list_folder(tree.root)


def test_it_begins_with_what_is_there_and_leaves_that_as_it_is(tree, tmp_path):
    tree.write(tree.root.entries[b"old"], 1, b"!!")
    assert list_folder(tree.root) == {b"old": b"o!!", b"sub": {b"file": b"sub"}}
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
    contents = {b"new": b"data" if syncs_file else b""} if syncs_folder else {}
    assert after(tree)[b"sub"] == {b"file": b"sub", **contents}


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
    assert list_folder(root) == {b"other": b"old", b"moved": {b"second": b"old"}}
    assert after(tree) == {b"old": b"old", b"sub": {b"file": b"sub"}}
    assert root.entries[b"old"].links == 1


@pytest.mark.parametrize("syncs, contents", [
    ("", {b"old": b"old", b"sub": {b"file": b"sub"}}),
    ("new", {b"old": b"old", b"sub": {b"file": b"old"}}),
    ("old", {b"sub": {b"file": b"sub"}}),  # the file has no name any more
    ("new, old", {b"sub": {b"file": b"old"}})])
def test_a_rename_between_folders_takes_two_syncs(tree, syncs, contents):
    root, sub = tree.root, tree.root.entries[b"sub"]
    tree.rename(root, b"old", sub, b"file", True)
    if "new" in syncs:
        sub.sync()
    if "old" in syncs:
        root.sync()
    assert after(tree) == contents


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
    second = tree.new_folder(root, b"other", 0o40755, 0, 0)
    root.sync()
    tree.rename(root, b"sub", second, b"sub", True)
    second.sync()
    tree.rename(second, b"sub", root, b"sub", True)
    tree.rename(root, b"other", sub, b"other", True)
    sub.sync()
    assert after(tree) == {b"old": b"old", b"sub": {b"file": b"sub", b"other": {}}}


def test_a_new_folder_without_a_name_that_lasts_is_lost_with_all_in_it(tree):
    folder = tree.new_folder(tree.root, b"new", 0o40755, 0, 0)
    create(tree, folder, b"file", b"data").sync()
    folder.sync()
    assert b"new" not in after(tree)


def test_by_chance_what_was_not_synced_may_last_in_any_combination(tree):
    outcomes = set()
    for seed in SEEDS:
        root = tree.root
        for name in (b"a", b"b"):
            create(tree, root, name, b"data")
        contents = after(tree, seed)
        assert contents.pop(b"old") == b"old" and contents.pop(b"sub") == {b"file": b"sub"}
        assert set(contents.values()) <= {b"", b"data"}
        outcomes.add((contents.get(b"a"), contents.get(b"b")))
        for name in contents:
            tree.unlink(root, name)
        root.sync()
    assert len(outcomes) == 9


def test_by_chance_too_what_was_synced_is_there_and_a_rename_loses_no_file(tree):
    outcomes = set()
    for seed in SEEDS:
        root, sub = tree.root, tree.root.entries[b"sub"]
        create(tree, root, b"synced", b"data").sync()
        root.sync()
        tree.rename(root, b"synced", sub, b"between", True)
        tree.rename(sub, b"between", sub, b"end", True)
        contents = after(tree, seed)
        places = {name: data for name, data in [*contents.items(), *contents[b"sub"].items()]
                  if name in (b"synced", b"between", b"end")}
        assert places and set(places.values()) == {b"data"}
        outcomes.add(frozenset(places))
        for name in places:
            tree.unlink(root if name == b"synced" else sub, name)
        root.sync(), sub.sync()
    assert {frozenset([b"synced"]), frozenset([b"end"])} <= outcomes


# Of a folder and a name in it, and for a rename or a link another one.
SPOTS = st.tuples(st.integers(0, 3), st.sampled_from([b"x", b"y"]))
STEPS = st.lists(st.tuples(
    st.sampled_from(["create", "folder", "write", "link", "unlink", "remove folder", "sync",
                     "sync folder", "rename", "rename", "rename"]), SPOTS, SPOTS), max_size=25)


def step(tree: CrashingTree, action: str, spot, target) -> None:
    """If it can be done: folders are those that are there."""
    folders = list_folders(tree)
    (folder, name), (to, new) = ((folders[number % len(folders)], name)
                                 for number, name in (spot, target))
    node = folder.entries.get(name)
    with suppress(OSError):
        if action == "create":
            create(tree, folder, name, b"data")
        elif action == "folder":
            tree.new_folder(folder, name, 0o40755, 0, 0)
        elif action == "sync folder":
            folder.sync()
        elif action == "remove folder":
            tree.remove_folder(folder, name)
        elif action == "rename":
            tree.rename(folder, name, to, new, True)
        elif isinstance(node, File):
            if action == "write":
                tree.write(node, 0, b"more")
            elif action == "link":
                tree.link(node, to, new)
            elif action == "unlink":
                tree.unlink(folder, name)
            else:
                node.sync()


def list_folders(tree: CrashingTree) -> list:
    """The folders."""
    folders = [tree.root]
    for folder in folders:
        folders += [node for _, node in sorted(folder.entries.items()) if isinstance(node, Folder)]
    return folders


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 1 << 32))
def test_by_chance_too_what_was_synced_and_not_changed_is_there(tmp_path_factory, steps, seed):
    empty = tmp_path_factory.getbasetemp() / "empty"
    empty.mkdir(exist_ok=True)
    tree = CrashingTree(empty, MIB)
    for arguments in steps:
        step(tree, *arguments)
    durable, folders = {}, [tree.root]
    for folder in folders:
        durable[folder] = dict(folder.durable)
        folders += [node for node in folder.durable.values() if isinstance(node, Folder)]
    changes = {folder: {name for names in folder.changes for name in names} for folder in folders}
    contents = {}
    for node in {node for names in durable.values() for node in names.values()}:
        if isinstance(node, File):
            contents[node] = node.links, (node.content.read(0, 9), node.durable[1].read(0, 9))
    is_removed = {folder: folder.is_removed for folder in folders}
    tree.crash(seed)
    survivors = list_folders(tree)
    files = {node for folder in survivors for node in folder.entries.values()
             if isinstance(node, File)}
    assert len(set(survivors)) == len(survivors)
    assert all(folder in survivors for folder in folders if not is_removed[folder])
    for file, (links, possible) in contents.items():
        assert file in files or not links
        assert file not in files or file.content.read(0, 9) in possible
    for folder, names in durable.items():
        for name, node in names.items():
            if folder in survivors and name not in changes[folder] and isinstance(node, File):
                assert folder.entries[name] is node


def test_the_same_seed_leaves_the_same(tmp_path):
    outcomes = []
    for _ in range(2):
        tree = CrashingTree(tmp_path, MIB)
        for number in range(20):
            create(tree, tree.root, b"%d" % number, b"data")
        outcomes.append(after(tree, 7))
    assert outcomes[0] == outcomes[1] and 0 < len(outcomes[0]) < 20


def test_what_is_gone_takes_no_capacity(tree):
    file = create(tree, tree.root, b"large", bytes(MIB))
    with pytest.raises(OSError) as refusal:
        tree.write(file, MIB, b"1")
    assert refusal.value.errno == errno.ENOSPC and tree.free == 0
    tree.write(file, 0, b"again")
    file.opens = 1
    tree.unlink(tree.root, b"large")
    assert tree.free == 0
    file.opens = 0
    assert tree.free == tree.blocks
