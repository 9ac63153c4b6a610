"""The series applies to the pristine source exactly; what does not apply exactly is refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import horovod_opt
from building import BuildError, series, source_tree, upstream

ROOT = Path(__file__).parents[3]
PATCHES = ROOT / "patches"
PATHS = series.read_series(PATCHES)
HEADER = "Description: changes a greeting\n To be tested.\n\n"


@pytest.fixture(scope="session")
def pristine(tmp_path_factory) -> Path:
    """The unpacked release; never written to."""
    try:
        archive = upstream.obtain()
    except BuildError as error:
        if "cannot get" in str(error):
            pytest.skip(str(error))
        raise
    return source_tree.unpack(archive, tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def tree(pristine, tmp_path) -> Path:
    """Those files of the release that the series changes, to write to."""
    for patch in PATHS:
        for file_name in series.parse(patch.read_text(), patch.name):
            copy = tmp_path / "tree" / file_name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if (pristine / file_name).is_file():
                shutil.copyfile(pristine / file_name, copy)
    return tmp_path / "tree"


def write_patches(root: Path, *names: str, **patches: str) -> Path:
    """A folder of patches: the first of its folders has these, the others none."""
    for name in series.FOLDERS[1:]:
        (root / name).mkdir(parents=True)
        (root / name / "series").write_text("")
    write_series(root / series.FOLDERS[0], *names, **patches)
    return root


def write_series(folder: Path, *names: str, **patches: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "series").write_text("".join(f"{name}\n" for name in names))
    for name, text in patches.items():
        (folder / f"{name}.patch").write_text(text)
    return folder


def refusal(text: str, tmp_path: Path, old: str = "one\ntwo\nthree\nfour\n") -> str:
    """What is said to a patch of greeting.txt, which must not change."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "greeting.txt").write_text(old)
    patches = write_patches(tmp_path / "patches", "greeting.patch", greeting=text)
    with pytest.raises(BuildError) as caught:
        series.apply_series(patches, tree)
    assert (tree / "greeting.txt").read_text() == old
    return str(caught.value)


def greeting(*lines: str) -> str:
    return HEADER + "--- a/greeting.txt\n+++ b/greeting.txt\n" + "".join(f"{x}\n" for x in lines)


# The series of this repository


def test_the_series_applies_to_the_pristine_source(pristine, tree):
    names = series.apply_series(PATCHES, tree)
    assert names == [path.name for path in PATHS]
    assert set(PATHS) == set(PATCHES.rglob("*.patch"))
    for path in PATHS:
        for file_name in series.parse(path.read_text(), path.name):
            old = pristine / file_name
            assert not old.exists() or old.read_bytes() != (tree / file_name).read_bytes(), path


def test_every_patch_is_needed_in_its_place(tree):
    """A patch that applied twice, or in any place, would not say exactly where it belongs."""
    series.apply_series(PATCHES, tree)
    for patch in PATHS:
        if any(hunk.removed for hunks in series.parse(patch.read_text(), patch.name).values()
               for hunk in hunks):
            with pytest.raises(BuildError):
                series.apply_patch(patch, tree)


@pytest.mark.parametrize("patch", PATHS, ids=lambda path: path.stem)
def test_patch_has_no_context(patch):
    _, _, body = patch.read_text().partition("\n--- ")
    assert all(line.startswith(("-", "+", "@@")) for line in body.splitlines()[1:])


def test_patched_python_compiles(tree):
    series.apply_series(PATCHES, tree)
    for patch in PATHS:
        for file_name in series.parse(patch.read_text(), patch.name):
            if file_name.endswith(".py"):
                compile((tree / file_name).read_text(), file_name, "exec")


def test_diff_of_the_unpacked_trees_is_the_patch(pristine, tmp_path):
    """The way to change a patch, as docs/work/patches.md tells it."""
    name = "cxx-17.patch"
    command = [sys.executable, "-m", "building.source_tree", name, tmp_path / "work"]
    subprocess.run(command, cwd=ROOT, check=True)
    diff = subprocess.run(["diff", "-U0", "-rN", "a", "b"], cwd=tmp_path / "work",
                          check=False, stdout=subprocess.PIPE, text=True).stdout
    assert series.parse(diff, "diff") == series.parse((PATCHES / "ports" / name).read_text(), name)

    again = subprocess.run(command, cwd=ROOT, check=False, stderr=subprocess.PIPE, text=True)
    assert again.returncode == 1
    assert again.stderr.startswith("error: ") and "exists" in again.stderr


# The build's copy of the source


def test_prepare_touches_only_what_changes(pristine, tmp_path):
    folder = source_tree.prepare(tmp_path / "upstream")
    patched, neighbour = folder / "horovod/common/operations.cc", folder / "horovod/common/half.cc"
    assert b"horovod_opt::Pace" in patched.read_bytes()
    os.utime(patched, (0, 0))
    os.utime(neighbour, (0, 0))
    neighbour.write_bytes(b"changed by hand")
    stray = folder / "horovod/stray.cc"
    stray.write_bytes(b"")

    source_tree.prepare(folder)
    assert patched.stat().st_mtime == 0
    assert neighbour.read_bytes() == (pristine / "horovod/common/half.cc").read_bytes()
    assert not stray.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["upstream"]


def test_prepare_leaves_the_folder_alone_when_a_patch_does_not_apply(pristine, tmp_path):
    folder = tmp_path / "upstream"
    folder.mkdir()
    (folder / "kept").write_text("as it was")
    text = greeting("@@ -1 +1 @@", "-one", "+ONE")
    patches = write_patches(tmp_path / "patches", "greeting.patch", greeting=text)
    with pytest.raises(BuildError, match=r"upstream has no file greeting\.txt"):
        source_tree.prepare(folder, patches)
    assert [path.name for path in folder.iterdir()] == ["kept"]


# The series files


def test_folders_are_applied_in_their_order(tmp_path):
    patches = write_patches(tmp_path / "patches", "b.patch", "a.patch", a="", b="")
    write_series(patches / "hooks", "d.patch", d="")
    write_series(patches / "faults", "c.patch", c="")
    assert [path.relative_to(patches).as_posix() for path in series.read_series(patches)] == [
        "ports/b.patch", "ports/a.patch", "faults/c.patch", "hooks/d.patch"]


def test_series_names_a_patch_that_does_not_exist(tmp_path):
    patches = write_patches(tmp_path / "patches", "a.patch", "b.patch", a="")
    with pytest.raises(BuildError, match=r"ports/series names b\.patch, which .*remove the line"):
        series.read_series(patches)


def test_series_names_a_patch_of_another_folder(tmp_path):
    patches = write_patches(tmp_path / "patches", "a.patch", a="")
    write_series(patches / "hooks", "../ports/a.patch")
    with pytest.raises(BuildError, match=r"hooks/series names \.\./ports/a\.patch, which does not"):
        series.read_series(patches)


def test_series_names_a_patch_twice(tmp_path):
    patches = write_patches(tmp_path / "patches", "a.patch", "a.patch", a="")
    with pytest.raises(BuildError, match=r"ports/series names a\.patch more than once; leave one"):
        series.read_series(patches)


def test_series_leaves_a_patch_out(tmp_path):
    patches = write_patches(tmp_path / "patches", "a.patch", a="", b="", c="")
    with pytest.raises(BuildError, match=r"ports/series does not name b\.patch, c\.patch; add a"):
        series.read_series(patches)


@pytest.mark.parametrize("folder", series.FOLDERS)
def test_folder_without_a_series(folder, tmp_path):
    patches = write_patches(tmp_path / "patches", "a.patch", a="")
    (patches / folder / "series").unlink()
    with pytest.raises(BuildError, match=f"{folder}/series: no such file; it names"):
        series.read_series(patches)


@pytest.mark.parametrize("place", [".", "others", "ports/deep"])
def test_patch_in_no_folder_that_is_applied(place, tmp_path):
    patches = write_patches(tmp_path / "patches", "a.patch", a="")
    (patches / place).mkdir(exist_ok=True)
    (patches / place / "stray.patch").write_text("")
    with pytest.raises(BuildError, match=r"stray\.patch: in none of .*ports, faults, hooks; move"):
        series.read_series(patches)


def test_two_folders_have_a_patch_of_one_name(tmp_path):
    patches = write_patches(tmp_path / "patches", "a.patch", a="")
    write_series(patches / "hooks", "a.patch", a="")
    with pytest.raises(BuildError, match=r"hooks/a\.patch: .*ports/a\.patch has the same.*rename"):
        series.read_series(patches)


def test_series_may_have_comments(tmp_path):
    patches = write_patches(tmp_path / "patches", "# ports", "", "a.patch  # why", a="")
    assert [path.name for path in series.read_series(patches)] == ["a.patch"]


@pytest.mark.parametrize("folder", series.FOLDERS)
def test_last_line_of_a_series_is_its_last_patch(folder):
    """docs/work/patches.md takes it with tail."""
    *_, line = (PATCHES / folder / "series").read_text().splitlines()
    assert line == series.read_folder(PATCHES / folder)[-1].name


# One patch


def test_hunks_replace_insert_and_delete(tmp_path):
    (tmp_path / "greeting.txt").write_bytes(b"one\r\ntwo\f\nthree\nfour\nfive")
    patch = tmp_path / "greeting.patch"
    patch.write_bytes(greeting(
        "@@ -0,0 +1 @@", "+zero",
        "@@ -2 +3,2 @@", "-two\f", "+TWO", "+too",
        "@@ -4 +5,0 @@", "-four").encode())
    series.apply_patch(patch, tmp_path)
    assert (tmp_path / "greeting.txt").read_bytes() == b"zero\none\r\nTWO\ntoo\nthree\nfive"


def test_patch_may_add_a_file(tmp_path):
    patch = tmp_path / "new.patch"
    patch.write_text(HEADER + "--- /dev/null\n+++ b/deep/new.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n")
    series.apply_patch(patch, tmp_path)
    assert (tmp_path / "deep/new.txt").read_text() == "a\nb\n"


@pytest.mark.parametrize("lines, message", [
    (["@@ -3 +2 @@", "-two", "+TWO"], "greeting.txt differs at line 3"),
    (["@@ -1 +1 @@", "-two", "+TWO"], "greeting.txt differs at line 1"),
    (["@@ -2 +2 @@", "-Two", "+TWO"], "greeting.txt differs at line 2"),
    (["@@ -2 +2 @@", "-two ", "+TWO"], "greeting.txt differs at line 2"),
    (["@@ -4,2 +4 @@", "-four", "-five", "+FOUR"], "greeting.txt differs at line 4"),
    (["@@ -9 +9 @@", "-two", "+TWO"], "greeting.txt differs at line 9"),
    (["@@ -3 +3 @@", "-three", "+3", "@@ -1 +1 @@", "-one", "+1"], "differs at line 1"),
    (["@@ -3,0 +3 @@", "+inserted"], "line 3 is moved to line 4, not to 3"),
    (["@@ -2,0 +4 @@", "+inserted"], "line 2 is moved to line 3, not to 4"),
    (["@@ -9,0 +10 @@", "+inserted"], "greeting.txt differs at line 9"),
], ids=["later", "earlier", "other-text", "other-blank", "beyond-the-end", "far-beyond",
        "out-of-order", "insert-earlier", "insert-later", "insert-beyond"])
def test_patch_that_is_not_exact_is_refused(lines, message, tmp_path):
    assert message in refusal(greeting(*lines), tmp_path)


@pytest.mark.parametrize("lines, message", [
    (["@@ -1,2 +1,2 @@", "-one", "-two", "+1"], "last hunk is cut short"),
    (["@@ -1 +1,2 @@", "-one", "+1", "@@ -4 +4 @@"], "must start with - or +"),
    (["@@ -1,2 +1 @@", "-one", "@@ -4 +3 @@", "-four", "+4"], "must start with - or +"),
    (["@@ -1 +1 @@", "-one", "+1", "+and more"], "neither in a hunk nor"),
    (["@@ -1,2 +1,2 @@", "-one", "+1", " two"], "must start with - or +"),
    (["@@ -1 +1 @@", "-one", "+1", " two"], "context lines are not allowed"),
    (["@@ 1 @@", "-one", "+1"], "malformed hunk header"),
    ([], "changes nothing"),
], ids=["cut", "miscounted", "cut-in-the-middle", "too-long", "context", "context-after", "header",
        "empty"])
def test_malformed_patch_is_refused(lines, message, tmp_path):
    text = refusal(greeting(*lines), tmp_path)
    assert message in text and text.startswith("greeting.patch")


def test_hunk_without_a_file_is_refused(tmp_path):
    assert "malformed hunk header" in refusal(HEADER + "@@ -1 +1 @@\n-one\n+1\n", tmp_path)


def test_deleting_a_file_is_refused(tmp_path):
    text = HEADER + "--- a/greeting.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-one\n"
    assert "not a file of the tree" in refusal(text, tmp_path, "one\n")


@pytest.mark.parametrize("patch", PATHS, ids=lambda path: path.stem)
def test_real_patch_with_shifted_line_numbers_is_refused(patch, tree, tmp_path):
    """Each hunk of each patch in turn, one line too far."""
    for earlier in PATHS[:PATHS.index(patch)]:
        series.apply_patch(earlier, tree)
    text = patch.read_text()
    for header in re.finditer(r"^@@ -(\d+)", text, re.MULTILINE):
        line = int(header[1]) + 1
        shifted = tmp_path / patch.name
        shifted.write_text(f"{text[:header.start()]}@@ -{line}{text[header.end():]}")
        with pytest.raises(BuildError):
            series.apply_patch(shifted, shutil.copytree(tree, tmp_path / str(header.start())))


def test_patched_version_is_upstreams_plus_ours():
    patch = PATCHES / "hooks" / "version.patch"
    (hunk,) = series.parse(patch.read_text(), patch.name)["horovod/__init__.py"]
    pin = upstream.read_pin()
    assert hunk.removed == [f"__version__ = '{pin.version}'\n"]
    assert hunk.added == [f"__version__ = '{pin.version}+opt.{horovod_opt.__version__}'\n"]
