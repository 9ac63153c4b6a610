"""Applies the patches of patches/ to a pristine upstream tree, exactly or not at all.

They are in three folders, each with a file `series` that names its patches in order. The order of
the folders is fixed, since line numbers refer to a tree that has the earlier patches.

The patches are unified diffs without context lines. The pinned hash makes line numbers exact,
so every hunk must match at its line: no fuzz, no offset. A hunk that only inserts has nothing to
match, so its two line numbers must also agree with each other.
"""

import io
import re
from dataclasses import dataclass, field
from pathlib import Path

from building import BuildError

FOLDERS = ("ports", "faults", "hooks")  # in the order in which they are applied
HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass
class Hunk:
    line: int  # first line replaced, 1-based; with no line removed, the line to insert after
    new_line: int  # first line added, in the patched file; with none added, the line before
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


def read_series(patches: Path) -> list[Path]:
    """Paths of all patches of the three folders in the order in which they are applied.

    Raises BuildError unless every *.patch below `patches` is in one of the folders, is named once
    by the folder's series, and has a name that no other has.
    """
    paths = [path for folder in FOLDERS for path in read_folder(patches / folder)]
    stray = sorted(set(patches.rglob("*.patch")) - set(paths))
    if stray:
        raise BuildError(f"{stray[0]}: in none of the folders {', '.join(FOLDERS)}; move it into "
                         "one of them and name it in that folder's series")
    places: dict[str, Path] = {}
    for path in paths:
        if path.name in places:
            raise BuildError(f"{path}: {places[path.name]} has the same name; rename one of them")
        places[path.name] = path
    return paths


def read_folder(folder: Path) -> list[Path]:
    """Paths of the patches of one folder in order. Its series must name each exactly once."""
    series = folder / "series"
    if not series.is_file():
        raise BuildError(f"{series}: no such file; it names the patches of its folder in order")
    lines = (line.split("#")[0].strip() for line in series.read_text().splitlines())
    names = [line for line in lines if line]
    present = {path.name for path in folder.glob("*.patch")}
    for name in names:
        if names.count(name) > 1:
            raise BuildError(f"{series} names {name} more than once; leave one of the lines")
        if name not in present:
            raise BuildError(f"{series} names {name}, which does not exist in its folder; remove "
                             "the line or bring the file back")
    strays = sorted(present - set(names))
    if strays:
        raise BuildError(f"{series} does not name {', '.join(strays)}; add a line for each at its "
                         "place, or remove the file")
    return [folder / name for name in names]


def parse(text: str, name: str) -> dict[str, list[Hunk]]:
    """Hunks by file, in the order of the patch."""
    files: dict[str, list[Hunk]] = {}
    hunks = None
    expected_removed = expected_added = 0
    for number, line in enumerate(_lines(text), 1):
        if expected_removed or expected_added:
            if line[0] == "-" and expected_removed:
                hunks[-1].removed.append(line[1:])
                expected_removed -= 1
            elif line[0] == "+" and expected_added:
                hunks[-1].added.append(line[1:])
                expected_added -= 1
            else:
                raise BuildError(f"{name}:{number}: a hunk line must start with - or + and be "
                                 "counted in the hunk's header")
        elif line.startswith("+++ "):
            if not line.startswith("+++ b/"):
                raise BuildError(f"{name}:{number}: not a file of the tree, +++ b/...")
            hunks = files.setdefault(line[6:].split("\t")[0].strip(), [])
        elif line.startswith("@@"):
            match = HUNK.match(line)
            if match is None or hunks is None:
                raise BuildError(f"{name}:{number}: malformed hunk header")
            hunks.append(Hunk(int(match[1]), int(match[3])))
            expected_removed = int(match[2] or 1)
            expected_added = int(match[4] or 1)
        elif hunks is not None and not line.startswith(("--- ", "diff ")):
            raise BuildError(f"{name}:{number}: neither in a hunk nor the start of one; context "
                             "lines are not allowed (diff -U0)")
    if expected_removed or expected_added:
        raise BuildError(f"{name}: the last hunk is cut short")
    if not any(files.values()):
        raise BuildError(f"{name}: changes nothing")
    return files


def _read(path: Path) -> str:
    return path.read_bytes().decode()  # read_text() would change CRLF


def _lines(text: str) -> list[str]:
    """Lines as diff counts them: str.splitlines() would also split at a form feed."""
    return io.StringIO(text, newline="\n").readlines()


def apply_patch(patch: Path, tree: Path) -> None:
    for file_name, hunks in parse(_read(patch), patch.name).items():
        path = tree / file_name
        new_file = all(hunk.line == 0 for hunk in hunks)
        if not path.is_file() and not new_file:
            raise BuildError(f"{patch.name}: upstream has no file {file_name}")
        old = _lines(_read(path)) if path.is_file() else []
        new: list[str] = []
        position = 0
        for hunk in hunks:
            start = hunk.line - 1 if hunk.removed else hunk.line
            if not position <= start <= len(old) or (
                    old[start:start + len(hunk.removed)] != hunk.removed):
                raise BuildError(f"{patch.name}: {file_name} differs at line {hunk.line} from what "
                                 "the patch replaces")
            new += old[position:start]
            if hunk.new_line != len(new) + bool(hunk.added):
                raise BuildError(f"{patch.name}: {file_name}: line {hunk.line} is moved to line "
                                 f"{len(new) + bool(hunk.added)}, not to {hunk.new_line}")
            new += hunk.added
            position = start + len(hunk.removed)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes("".join(new + old[position:]).encode())


def apply_series(patches: Path, tree: Path) -> list[str]:
    """Applies all patches of the three folders in order and returns their names."""
    paths = read_series(patches)
    for path in paths:
        apply_patch(path, tree)
    return [path.name for path in paths]
