"""Opens an index that is kept, if it is still that of the files."""

from __future__ import annotations

import copyreg
import os

from horovod_opt.io import formats
from horovod_opt.io.errors import Damaged, Missing, Stale
from horovod_opt.io.index import index_file, places
from horovod_opt.io.index.data_index import Index
from horovod_opt.io.index.files import Change, Files, find_changes


def load(pattern: formats.Pattern, place: str | os.PathLike | None = None,
         check: bool = True) -> Index:
    """The index of what `pattern` names, from `place` or from where it is kept.

    With `check`, files are listed and their sizes and times compared; without, nothing but the
    index is looked at, for ranks that know that another has checked. Raises Missing, Stale (with
    the file and both values), Damaged, and what `formats.find` raises. Of several indexes that are
    kept, the first that can be used is taken, and the first one's error raised if none can.
    """
    data_files = formats.find(pattern) if check else None
    root = data_files.root if data_files else formats.root_of(formats.absolute(pattern))
    error = None
    for candidate in places.candidates(pattern, place):
        try:
            return read(candidate, root, check, data_files)
        except Missing as missing:
            error = error or missing
        except (Stale, Damaged) as refusal:
            error = refusal if error is None or isinstance(error, Missing) else error
    raise error


def read(path: str | os.PathLike, root: str, check: bool = True,
         data_files: formats.DataFiles | None = None) -> Index:
    """An index from its file, of data in the folder `root`; `found` is what is there now."""

    def compare(files: Files, transactions: tuple[int, ...]) -> None:
        if data_files is not None:
            _compare_names(path, data_files.files, files.names.strings())
        if check:
            file_changes = find_changes(root, files, transactions)
            if file_changes:
                raise _stale(path, file_changes[0], len(file_changes))

    index = index_file.read(os.fspath(path), root, compare)
    if data_files is not None and (
            (index.format, index.classes) != (data_files.format, data_files.classes)):
        raise _stale(path, Change(root, f"{index.format} with classes {list(index.classes)} when "
                                  f"indexed, now {data_files.format} with classes "
                                  f"{list(data_files.classes)}"), 1)
    return index


# Another process opens the file itself, so that all share its pages.
copyreg.pickle(Index, lambda index: (read, (index.place, index.root, False)))


def _compare_names(path: str | os.PathLike, current: list[str], indexed: list[str]) -> None:
    if current == indexed:
        return
    lost_names, new_names = sorted(set(indexed) - set(current)), sorted(set(current) - set(indexed))
    file_changes = [*(Change(name, "indexed, but no longer there") for name in lost_names),
                    *(Change(name, "there, but not indexed") for name in new_names)]
    raise _stale(path, file_changes[0], len(file_changes))


def _stale(path: str | os.PathLike, first: Change, count: int) -> Stale:
    more = f", and {count - 1} more differ" if count > 1 else ""
    return Stale(f"{path}: this index is of other files: {first}{more}; remedy: horovod-opt io "
                 "index --rebuild")
