"""Opens an index that is kept, if it is still that of the files."""

from __future__ import annotations

import copyreg
import os
import stat
from contextlib import suppress
from typing import NamedTuple

from horovod_opt.io import formats
from horovod_opt.io.errors import Damaged, Missing, Stale
from horovod_opt.io.formats import pack_folder
from horovod_opt.io.index import index_file, pack_index, places
from horovod_opt.io.index.data_index import Index
from horovod_opt.io.index.files import Change, Files, find_changes
from horovod_opt.io.progress import say


class Fingerprint(NamedTuple):
    """What tells an index from others, and where it was found."""

    place: str
    fingerprint: str


def load(pattern: formats.Pattern, place: str | os.PathLike | None = None,
         check: bool = True, checksums: bool = False) -> Index:
    """The index of what `pattern` names, from `place` or from where it is kept.

    With `check`, files are listed and their sizes and times compared; without, nothing but the
    index is looked at. Of several indexes that are kept, the first that can be used is taken; with
    `checksums` the first that has some, if one has. Raises the first one's error if none can be
    used: Missing, Stale (with the file and both values), or Damaged; and what `formats.find` does.
    """
    data_files = formats.find(pattern) if check else None
    root = data_files.root if data_files else formats.root_of(formats.absolute(pattern))
    if check and place is None:
        places.move_old(pattern)
    result = error = None
    for candidate in places.candidates(pattern, place):
        try:
            index = read(candidate, root, check, data_files, is_given=place is not None)
        except Missing as missing:
            error = error or missing
        except (Stale, Damaged) as refusal:
            error = refusal if error is None or isinstance(error, Missing) else error
        else:
            result = result or index
            if index.crc is not None or not checksums:
                result = index
                break
    if result is None:
        raise error
    if check and isinstance(error, Damaged):
        say(f"{error}; instead {result.place} is used")
    return result


def load_same(pattern: formats.Pattern, leader_index: Fingerprint,
              place: str | os.PathLike | None = None, check: bool = False) -> Index:
    """The index that another rank has loaded or built, by its place and fingerprint there, or from
    where this rank would look for it. Raises Missing if it is in none of these places or, with
    `check`, no longer that of the files."""
    data_files = formats.find(pattern) if check else None
    root = data_files.root if data_files else formats.root_of(formats.absolute(pattern))
    candidates = dict.fromkeys((leader_index.place, *map(str, places.candidates(pattern, place))))
    for candidate in candidates:
        with suppress(Missing, Damaged, Stale):
            index = read(candidate, root, check, data_files)
            if index.fingerprint == leader_index.fingerprint:
                return index
    raise Missing(f"{leader_index.place}: no index, or not the one that this node's first rank has "
                  f"loaded, nor is that in {', '.join(candidates)}; remedy: a place that all ranks "
                  "of a node see: index= of open, --output of horovod-opt io index; and start the "
                  "job again if another one has rebuilt it meanwhile")


def read(path: str | os.PathLike, root: str, check: bool = True,
         data_files: formats.DataFiles | None = None, is_given: bool = True) -> Index:
    """An index from its file, of data in the folder `root`; `data_files` is what is there now.
    `is_given`: not found in a place where others may have put it."""
    if os.path.basename(path) == pack_folder.NAME:
        return pack_index.open_samples(root, check)

    def compare(files: Files, transactions: tuple[int, ...]) -> None:
        if data_files is not None:
            _compare_names(path, data_files.files, files.names.strings())
        if check:
            file_changes = find_changes(root, files, transactions)
            if file_changes:
                raise _stale(path, file_changes[0], len(file_changes))

    index = index_file.read(
        os.fspath(path), root, compare, None if is_given else
        lambda status: _check_owner(os.fspath(path), status, root, data_files))
    if data_files is not None and (
            (index.format, index.classes) != (data_files.format, data_files.classes)):
        raise _stale(path, Change(root, f"{index.format} with classes {list(index.classes)} when "
                                  f"indexed, now {data_files.format} with classes "
                                  f"{list(data_files.classes)}"), 1)
    return index


def read_same(known: Fingerprint, root: str) -> Index:
    """The index that another process has opened. Raises Stale if it is another one by now."""
    index = read(known.place, root, check=False)
    if index.fingerprint != known.fingerprint:
        raise Stale(f"{known.place}: this index was replaced after the job had opened it; remedy: "
                    "start the job again")
    return index


# Another process opens the file itself, so that all share its pages.
copyreg.pickle(Index, lambda index: (
    read_same, (Fingerprint(index.place, index.fingerprint), index.root)))


def _check_owner(path: str, status: os.stat_result, root: str,
                 data_files: formats.DataFiles | None) -> None:
    """Raises ValueError for a stranger's index: neither the user's own nor root's, nor beside the
    data, where the folder's and the data's owner and all who may replace the data are no strangers.
    In a sticky folder everybody may write, but nobody may replace what others have written."""
    owners = {os.geteuid(), 0}
    folder = os.path.dirname(path)
    if folder in (root, os.path.join(root, places.NAME)):
        modes = os.stat(root).st_mode, os.stat(folder).st_mode
        if not any(mode & stat.S_ISVTX for mode in modes):
            return
        owners.add(os.stat(root).st_uid)
        with suppress(OSError):
            if data_files is not None:
                owners.add(os.stat(os.path.join(root, data_files.files[0])).st_uid)
    if status.st_uid not in owners:
        raise ValueError(f"it is of user id {status.st_uid}, who has neither the data nor its "
                         "folder")


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
