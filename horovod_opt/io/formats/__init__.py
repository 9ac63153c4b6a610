"""Which files a pattern names, and of which format they are."""

from __future__ import annotations

import glob
import os
import re
from typing import NamedTuple

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import folder, lmdb_file, pack_folder, shard_folder
from horovod_opt.io.formats.patterns import Pattern, absolute, fixed_folder, remedy, root_of
from horovod_opt.io.formats.read_buffer import cannot_read
from horovod_opt.io.formats.unpacked_file import UnpackedFile, kind_of, refuse_kind

TFRECORD, TAR, LMDB, FOLDER = FORMATS = ("tfrecord", "tar", "lmdb", "folder")
PACK = "pack"  # a folder that horovod-opt pack has made
# What names of compressed files end with, and what they end with otherwise.
PACKED = {r"\.(gz|z|zz|zlib|zst|zstd)$": "", r"\.(tgz|tzst)$": ".tar"}
UNREAD = {".bz2": "bzip2", ".tbz2": "bzip2", ".xz": "xz", ".txz": "xz", ".lz4": "lz4"}
SOME = "with choose=, such as ['cats/*.jpg', 'dogs/*'], for some of its files"
OTHER_INDEXES = (".idx", ".index")  # of other tools, which lie beside their files


class DataFiles(NamedTuple):
    """What a pattern names: names of files, sorted, relative to the folder `root`."""

    files: list[str]
    format: str
    root: str
    classes: tuple[str, ...] = ()
    labels: list[int] | None = None


def find(pattern: Pattern) -> DataFiles:
    """The files and their format: tfrecord, tar, lmdb, folder, or pack.

    A pattern is a path or a glob (`**` for any depth, `{00..12}` and `{a,b}`), or several of them.
    Raises InputError for one that is none; DataError where nothing is found or can be read, for
    several formats, for files that are compressed otherwise than by gzip, zlib or zstd, for names
    that are not UTF-8.
    """
    patterns = absolute(pattern)
    root = root_of(patterns)
    if patterns == (root,) and not _is_environment(root):
        return _folder(root)
    paths = sorted({path for item in patterns for path in _matches(item)})
    formats = {}
    for path in paths:
        formats.setdefault(_format(path), path)
    if len(formats) > 1:
        examples = ", ".join(f"{path} is {kind}" for kind, path in formats.items())
        raise DataError(f"several formats in one data set: {examples}; remedy: a pattern that "
                        "names files of one format")
    files = sorted(os.path.relpath(path, root) for path in paths)
    for name in files:
        if not _is_text(name):
            raise DataError(f"{ascii(os.path.join(root, name))}: its name is not UTF-8; remedy: "
                            "rename it")
    return DataFiles(files, next(iter(formats)), root)


def _matches(pattern: str) -> list[str]:
    if os.path.lexists(pattern):
        paths = [pattern]
    else:
        paths = glob.glob(pattern, recursive=True)
    if not paths:
        folder_of_pattern = fixed_folder(pattern)
        try:
            os.scandir(folder_of_pattern).close()
        except FileNotFoundError as error:
            raise DataError(f"{pattern}: there is no folder {folder_of_pattern}; remedy: correct "
                            "the path, or make it visible on each node") from error
        except OSError as error:
            raise cannot_read(folder_of_pattern, error) from error
        raise DataError(f"{pattern}: no such files; remedy: {remedy(pattern)}")
    return [os.path.join(path, lmdb_file.DATA) if _is_environment(path) else path
            for path in paths]


def _is_environment(path: str) -> bool:
    return os.path.isfile(os.path.join(path, lmdb_file.DATA))


def _format(path: str) -> str:
    """By the name where it tells, as reading thousands of files takes long, else by content."""
    if os.path.isdir(path):
        raise DataError(f"{path}: a folder among files; remedy: a glob that names files only; or a "
                        f"folder of files alone, of several the one above them, {SOME}")
    name = os.path.basename(path).lower()
    if (end := os.path.splitext(name)[1]) in UNREAD:
        raise refuse_kind(path, UNREAD[end])
    for packed, plain in PACKED.items():
        name = re.sub(packed, plain, name)
    if name.endswith(".tar"):
        return TAR
    if name.endswith(".mdb"):
        if is_packed(path):
            raise _refuse_packed_lmdb(path)
        return LMDB
    if shard_folder.is_tfrecord_name(name):
        return TFRECORD
    return _format_of_content(path)


def _format_of_content(path: str) -> str:
    try:
        with open(path, "rb") as file:
            head = file.read(shard_folder.HEAD)
    except OSError as error:
        raise cannot_read(path, error) from error
    if not shard_folder.kind_of_head(head) and kind_of(head):
        with UnpackedFile(path) as contents:
            head = contents.read(shard_folder.HEAD)
        if shard_folder.kind_of_head(head) == "LMDB":
            raise _refuse_packed_lmdb(path)
    kind = {"LMDB": LMDB, "TFRecord": TFRECORD, "tar": TAR}.get(shard_folder.kind_of_head(head))
    if kind is not None:
        return kind
    if path.lower().endswith(OTHER_INDEXES):
        raise DataError(f"{path}: an index of another tool, which is not needed; remedy: a pattern "
                        "that leaves it out, such as *.tfrecord or *.tar")
    raise DataError(f"{path}: neither TFRecord, tar nor LMDB; remedy: files of one of these "
                    f"formats; or for a folder of files the folder itself, {SOME}")


def _refuse_packed_lmdb(path: str) -> DataError:
    return DataError(f"{path}: a compressed LMDB, which cannot be read; remedy: decompress it")


def is_packed(path: str) -> bool:
    """Whether a file is compressed, by its first bytes. Raises DataError for one that is so in a
    way that is not read."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(shard_folder.HEAD)
    except OSError as error:
        raise cannot_read(path, error) from error
    if shard_folder.kind_of_head(head) or not kind_of(head):
        return False
    UnpackedFile(path).close()
    return True


def _folder(root: str) -> DataFiles:
    if pack_folder.is_pack(root):
        return DataFiles(pack_folder.tars(root), PACK, root)
    listing = folder.listing(root)
    shard_folder.refuse(root, listing)
    if not listing.files:
        raise DataError(f"{root}: no files; remedy: correct the path")
    return DataFiles(listing.files, FOLDER, root, listing.classes, listing.labels())


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
