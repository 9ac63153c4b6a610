"""Makes the tables of docs/work/patches.md from the headers of the patches.

    python -m building.patch_table

writes the page anew: the table after each of the marks <!--ports-->, <!--faults--> and
<!--hooks-->. All else stays.
"""

import re
import sys
from pathlib import Path

from building import BuildError, series
from building.patch_header import PatchHeader, read_header, split_remark
from building.source_tree import PATCHES

PAGE = PATCHES.parent / "docs" / "work" / "patches.md"
COMMIT = "https://github.com/horovod/horovod/commit"
TABLE = re.compile(r"\A(\|.*\n)*")


def write_tables(page: str, patches: Path = PATCHES) -> str:
    """The text of the page with the tables that the headers make."""
    for folder in series.FOLDERS:
        mark = f"<!--{folder}-->\n"
        before, separator, after = page.partition(mark)
        if not separator:
            raise BuildError(f"{PAGE}: no line {mark.strip()}; write one where the table of "
                             f"patches/{folder} belongs")
        page = before + mark + make_table(patches / folder) + TABLE.sub("", after)
    return page


def make_table(folder: Path) -> str:
    """Lines of Markdown: a patch each, in the order of the folder's series."""
    rows = ["| patch | purpose | upstream |", "| --- | --- | --- |"]
    for patch in series.read_folder(folder):
        header = read_header(patch)
        rows.append(f"| `{patch.stem}` | {_cell(header.purpose)} | {_cell(describe(header))} |")
    return "".join(f"{row}\n" for row in rows)


def describe(header: PatchHeader) -> str:
    """What upstream knows of a patch, in Markdown; empty: nothing."""
    words = []
    state, _ = split_remark(header.forwarded)
    if header.applied_upstream:
        commit, remark = split_remark(header.applied_upstream)
        digest = commit.partition(":")[2]
        words.append(f"[`{digest[:8]}`]({COMMIT}/{digest})" + (f": {remark}" if remark else ""))
    elif state not in ("no", "not-needed"):
        words.append(f"[sent]({state})")
    if header.bug:
        words.append(f"[#{header.bug.rsplit('/', 1)[-1]}]({header.bug})")
    return ", ".join(words)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit("usage: python -m building.patch_table")
    try:
        PAGE.write_text(write_tables(PAGE.read_text()))
    except BuildError as error:
        sys.exit(f"error: {error}")
