"""The tables of docs/work/patches.md are those that the headers make."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from building import BuildError, series
from building.patch_header import PatchHeader
from building.patch_table import PAGE, describe, make_table, write_tables

COMMIT = "0123456789abcdef" * 2 + "01234567"
MARKS = "".join(f"<!--{folder}-->\n" for folder in series.FOLDERS)


@pytest.fixture
def patches(tmp_path: Path) -> Path:
    """Folders with one patch each, named after the folder."""
    for folder in series.FOLDERS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "series").write_text(f"{folder}.patch\n")
        (tmp_path / folder / f"{folder}.patch").write_text(
            f"Description: a|b of {folder}\n Why.\nOrigin: other, me\nForwarded: no\n"
            "Last-Update: 2026-11-28\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n")
    return tmp_path


def header(forwarded: str = "no", **fields: str) -> PatchHeader:
    return PatchHeader("what", "why", "other, me", forwarded, date(2026, 11, 28), **fields)


def test_page_has_what_the_headers_say():
    page = PAGE.read_text()
    assert write_tables(page) == page, "write it anew: python -m building.patch_table"


def test_page_names_every_patch_once():
    lines = PAGE.read_text().splitlines()
    for patch in series.read_series(PAGE.parents[2] / "patches"):
        assert sum(line.startswith(f"| `{patch.stem}` |") for line in lines) == 1, patch


def test_tables_are_replaced_and_all_else_stays(patches):
    page = write_tables(f"before\n{MARKS}| old |\n\n| kept |\n", patches)
    assert page == "before\n" + "".join(
        f"<!--{folder}-->\n{make_table(patches / folder)}" for folder in series.FOLDERS
    ) + "\n| kept |\n"
    assert write_tables(page, patches) == page


def test_a_changed_header_changes_the_page(patches):
    page = write_tables(MARKS, patches)
    patch = patches / "faults" / "faults.patch"
    patch.write_text(patch.read_text().replace("Forwarded: no", "Forwarded: https://x.org/pull/1"))
    assert write_tables(page, patches) != page


def test_row_of_a_patch(patches):
    assert make_table(patches / "ports") == (
        "| patch | purpose | upstream |\n| --- | --- | --- |\n"
        "| `ports` | a\\|b of ports |  |\n")


@pytest.mark.parametrize("folder", series.FOLDERS)
def test_page_without_a_mark_is_refused(folder, patches):
    with pytest.raises(BuildError, match=f"patches.md: no line <!--{folder}-->; write one"):
        write_tables(MARKS.replace(f"<!--{folder}-->", ""), patches)


@pytest.mark.parametrize("fields, text", [
    ({}, ""),
    ({"bug": "https://x.org/issues/7"}, "[#7](https://x.org/issues/7)"),
    ({"forwarded": "not-needed (ours)"}, ""),
    ({"forwarded": "https://x.org/pull/8"}, "[sent](https://x.org/pull/8)"),
    ({"applied_upstream": f"commit:{COMMIT}"},
     f"[`01234567`](https://github.com/horovod/horovod/commit/{COMMIT})"),
    ({"applied_upstream": f"commit:{COMMIT} (in part)"},
     f"[`01234567`](https://github.com/horovod/horovod/commit/{COMMIT}): in part"),
])
def test_what_upstream_has(fields, text):
    assert describe(header(**fields)) == text
