"""Writes the records in one format, unless they are there; run by the Python that has its writer.

    python -m horovod_lab.io.data.data_folder FORMAT FOLDER COUNT BYTES
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from horovod_lab.io.data.formats import FORMATS
from horovod_lab.io.data.records import Records

INDEXED = ("tfrecord", "lmdb")  # formats that are read with an index beside them
WRITTEN = 10**9  # seconds: whole ones, which images of file systems keep


def folder_of(data: Path, form: str, records: Records) -> Path:
    """Where they are: another folder for other records."""
    return data / f"{form}-{records.count}x{records.size}-seed{records.seed}"


def write(form: str, folder: Path, records: Records) -> None:
    """The folder appears when it is complete."""
    make(folder, lambda draft: FORMATS[form](draft, records), form in INDEXED)


def make(folder: Path, fill: Callable[[Path], None], is_indexed: bool) -> None:
    """A folder that `fill` writes into, and that appears when it is complete."""
    draft = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    fill(draft)
    for path in draft.rglob("*"):
        os.utime(path, (WRITTEN, WRITTEN))
    if is_indexed:
        _index(draft)
    draft.rename(folder)


def _index(folder: Path) -> None:
    """This project's own, beside the data. Other formats have theirs inside."""
    from horovod_lab.io.peers.hio import pattern_of
    from horovod_opt.io import index

    index.build(pattern_of(folder))


def main(form: str, folder: str, count: str, size: str) -> None:
    from horovod_opt.io.progress import show_bar

    with show_bar(f"Writing {form}") as progress:
        write(form, Path(folder), _records(count, size, progress))


def _records(count: str, size: str, progress: Callable[[int, int], None]) -> Records:
    return Records(int(count), int(size), progress=progress)


if __name__ == "__main__":
    main(*sys.argv[1:])
