"""The patched upstream source, in one folder that survives between builds.

Only files whose content changed are written, so that a change of one patch recompiles what
depends on it and nothing else.

    python -m building.source_tree PATCH FOLDER

writes FOLDER/a, the source before that patch (a name without a folder), and FOLDER/b, the source
after it: what a developer needs to change the patch (docs/work/patches.md).
"""

import filecmp
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from building import BuildError, series, upstream

PATCHES = Path(__file__).parent.parent / "patches"


def prepare(folder: Path, patches: Path = PATCHES) -> Path:
    """Makes `folder` hold the pinned upstream release with all patches applied."""
    archive = upstream.obtain()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fresh = unpack(archive, Path(scratch))
        series.apply_series(patches, fresh)
        mirror(fresh, folder)
    return folder


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, filter="data")
        else:
            tar.extractall(folder)
    (tree,) = folder.iterdir()
    return tree


def mirror(source: Path, target: Path) -> None:
    """Makes `target` equal to `source`, leaving files that are already equal untouched."""
    names = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    if target.is_dir():
        for path in target.rglob("*"):
            if path.is_file() and path.relative_to(target) not in names:
                path.unlink()
    for name in names:
        old, new = target / name, source / name
        if not (old.is_file() and filecmp.cmp(new, old, shallow=False)):
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(new, old)  # not the time stamp: make and ninja must see the change


def unpack_around(patch: str, folder: Path, patches: Path = PATCHES) -> None:
    """Writes folder/a and folder/b: the source before and after `patch`."""
    paths = series.read_series(patches)
    names = [path.name for path in paths]
    if patch not in names:
        raise BuildError(f"{patches} has no {patch!r}, only {', '.join(names)}")
    place = names.index(patch)
    before, after = folder / "a", folder / "b"
    for tree in (before, after):
        if tree.exists():
            raise BuildError(f"{tree} exists; name another folder or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        unpack(upstream.obtain(), Path(scratch)).rename(before)
    for path in paths[:place]:
        series.apply_patch(path, before)
    shutil.copytree(before, after)
    series.apply_patch(paths[place], after)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m building.source_tree PATCH FOLDER")
    try:
        unpack_around(sys.argv[1], Path(sys.argv[2]))
    except BuildError as error:
        sys.exit(f"error: {error}")
