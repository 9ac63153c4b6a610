"""Opens an index that is kept, if it is still that of the files."""

from __future__ import annotations

import copyreg
import os

from horovod_opt.io import formats
from horovod_opt.io.errors import Damaged, Missing, Stale
from horovod_opt.io.index import index_file, places
from horovod_opt.io.index.data_index import Index
from horovod_opt.io.index.files import Changed, Files, changes


def load(pattern: formats.Pattern, place: str | os.PathLike | None = None,
         check: bool = True) -> Index:
    """The index of what `pattern` names, from `place` or from where it is kept.

    With `check`, files are listed and their sizes and times compared; without, nothing but the
    index is looked at, for ranks that know that another has checked. Raises Missing, Stale (with
    the file and both values), Damaged, and what `formats.find` raises. Of several indexes that are
    kept, the first that can be used is taken, and the first one's error raised if none can.
    """
    found = formats.find(pattern) if check else None
    root = found.root if found else formats.root_of(formats.absolute(pattern))
    error = None
    for candidate in places.candidates(pattern, place):
        try:
            return read(candidate, root, check, found)
        except Missing as missing:
            error = error or missing
        except (Stale, Damaged) as unusable:
            error = unusable if error is None or isinstance(error, Missing) else error
    raise error


def read(path: str | os.PathLike, root: str, check: bool = True,
         found: formats.Found | None = None) -> Index:
    """An index from its file, of data in the folder `root`; `found` is what is there now."""

    def compare(files: Files, transactions: tuple[int, ...]) -> None:
        if found is not None:
            _compare_names(path, found.files, files.names.strings())
        if check:
            changed = changes(root, files, transactions)
            if changed:
                raise _stale(path, changed[0], len(changed))

    index = index_file.read(os.fspath(path), root, compare)
    if found is not None and (index.format, index.classes) != (found.format, found.classes):
        raise _stale(path, Changed(root, f"{index.format} with classes {list(index.classes)} when "
                                         f"indexed, now {found.format} with classes "
                                         f"{list(found.classes)}"), 1)
    return index


# Another process opens the file itself, so that all share its pages.
copyreg.pickle(Index, lambda index: (read, (index.place, index.root, False)))


def _compare_names(path: str | os.PathLike, there: list[str], indexed: list[str]) -> None:
    if there == indexed:
        return
    gone, come = sorted(set(indexed) - set(there)), sorted(set(there) - set(indexed))
    changed = [*(Changed(name, "indexed, but no longer there") for name in gone),
               *(Changed(name, "there, but not indexed") for name in come)]
    raise _stale(path, changed[0], len(changed))


def _stale(path: str | os.PathLike, first: Changed, count: int) -> Stale:
    more = f", and {count - 1} more differ" if count > 1 else ""
    return Stale(f"{path}: this index is of other files: {first}{more}; remedy: horovod-opt io "
                 "index --rebuild")
