"""Folders that are no folders of samples: of shards, each of which holds samples, and of files
beside folders, which would belong to no class. Found by all names, and by some files' first bytes.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import lmdb_file, tfrecord
from horovod_opt.io.formats.folder import Listing
from horovod_opt.io.formats.read_buffer import cannot_read

HEAD = 512  # bytes that tell what a file is
_COMPRESSED = r"\.(gz|bz2|xz|zst|zstd|lz4)"
_UNREAD = r"\.(bz2|xz|lz4)$"  # of these
_READ = {  # what can be opened, by its name
    "TFRecord": rf"tfrecords?([-_.]\d+([-_.]of[-_.]\d+)?)?({_COMPRESSED})?$",
    "tar": rf"\.(tar({_COMPRESSED})?|tgz)$",
    "LMDB": r"\.(mdb|lmdb)$"}
_OTHERS = {  # what cannot
    "MDS": rf"\.mds({_COMPRESSED})?$", "Arrow": r"\.(arrow|feather)$", "Parquet": r"\.parquet$",
    "FFCV": r"\.beton$", "RecordIO": r"\.rec$"}
_NAMES = {kind: re.compile(name, re.IGNORECASE) for kind, name in {**_READ, **_OTHERS}.items()}
# Names that may be one of these; a folder can have millions of others.
_ENDS = (".tar", ".tgz", ".mdb", ".lmdb", ".mds", ".arrow", ".feather", ".parquet", ".beton",
         ".rec", ".gz", ".bz2", ".xz", ".zst", ".zstd", ".lz4")
# Of how many files, evenly, extensions are looked at; of how many extensions how many files are
# looked into.
_MOST_FILES, _MOST_KINDS, _OF_A_KIND = 10_000, 16, 3
# What lies beside folders of classes, and is no sample.
_DOCUMENTS = frozenset({"", ".md", ".txt", ".rst", ".json", ".jsonl", ".csv", ".tsv", ".yaml",
                        ".yml", ".xml", ".html", ".pdf", ".mat", ".pkl", ".py", ".sh", ".log",
                        ".toml", ".ini", ".ipynb", ".zip"})
_FEW = 5  # files beside folders may be anything
_STRAY_PART = 100  # one in so many that are in folders is a mistake, not a preview


def is_tfrecord_name(name: str) -> bool:
    """Whether a file is TFRecord by its name alone; an index of one, x.tfrecord.idx, is not."""
    return _NAMES["TFRecord"].search(name) is not None


def kind_of_head(head: bytes) -> str:
    """What a file of samples is that begins so: "TFRecord", "tar" and so on; "" if none is."""
    if lmdb_file.begins(head):
        return "LMDB"
    if tfrecord.begins(head):
        return "TFRecord"
    if head[257:262] == b"ustar":
        return "tar"
    return "Parquet" if head[:4] == b"PAR1" else "Arrow" if head[:6] == b"ARROW1" else ""


def refuse(root: str, listing: Listing) -> None:
    """Raises DataError for a folder that is none of samples, with what to open instead."""
    files = listing.files
    if len(listing.beside) * _STRAY_PART >= len(files):  # else one may be what was unpacked
        files = [*files, *listing.beside]
    shards = dict(_shards_by_name(files)) or dict(_shards_by_content(root, files))
    if shards:
        kind = next(kind for kind in _NAMES if kind in shards.values())
        _refuse_shards(root, kind, [name for name in shards if shards[name] == kind], len(files))
    _refuse_strays(root, listing)


def _shards_by_name(files: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in files:
        lower = name.lower()
        if not (lower.endswith(_ENDS) or "tfrecord" in lower):
            continue
        base = os.path.basename(name)
        if base != lmdb_file.LOCK:
            for kind, pattern in _NAMES.items():
                if pattern.search(base):
                    yield name, kind


def _shards_by_content(root: str, files: Sequence[str]) -> Iterator[tuple[str, str]]:
    by_extension: dict[str, list[str]] = {}
    for name in files[::max(len(files) // _MOST_FILES, 1)]:
        by_extension.setdefault(_extension(name), []).append(name)
    for names in sorted(by_extension.values(), key=len, reverse=True)[:_MOST_KINDS]:
        places = {0, len(names) // 2, len(names) - 1}
        for name in [names[place] for place in sorted(places)[:_OF_A_KIND]]:
            if kind := kind_of_head(_head(os.path.join(root, name))):
                yield name, kind


def _head(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(HEAD)
    except OSError as error:
        raise cannot_read(path, error) from error


def _refuse_shards(root: str, kind: str, shards: Sequence[str], files: int) -> None:
    example = shards[0]
    if kind in _READ:
        remedy = f"the pattern {_pattern(root, example)}"
        if re.search(_UNREAD, example):
            remedy += ", once they are decompressed"
    else:
        remedy = (f"write them as TFRecord, tar or LMDB, or a file for each sample: {kind} is not "
                  "read")
    raise DataError(
        f"{root}: a folder of files is a sample for each file, but of {files} files {len(shards)} "
        f"or more hold samples themselves, as {example} ({kind}); remedy: {remedy}; what is no "
        "sample belongs elsewhere, or gets a name that begins with a dot")


def _pattern(root: str, example: str) -> str:
    """That names the files that are alike in the folder of one of them."""
    folder, base = os.path.split(example)
    if base == lmdb_file.DATA:
        folder, last = os.path.split(folder)[0], os.path.join("*", base)
    elif dashes := re.search(r"(tfrecords?)?[-_.]\d+[-_.]of[-_.]\d+$", base, re.IGNORECASE):
        last = "*" + re.sub(r"\d+", "*", dashes.group())
    else:
        last = "*" + re.sub(_UNREAD, "", base)[len(_stem(base)):]
    return os.path.join(glob.escape(os.path.join(root, folder) if folder else root), last)


def _stem(base: str) -> str:
    return os.path.splitext(re.sub(_COMPRESSED + "$", "", base))[0]


def _extension(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _refuse_strays(root: str, listing: Listing) -> None:
    """Files beside folders of classes are left out; not if these may be the samples."""
    beside, inside = listing.beside, len(listing.files)
    strays = sum(_extension(name) not in _DOCUMENTS for name in beside)
    if not listing.classes or (strays * _STRAY_PART < inside or not strays) and (
            len(beside) <= max(_FEW, inside)):
        return
    extensions = ", ".join(f"{count} {extension or 'without extension'}" for extension, count
                           in Counter(map(_extension, beside)).most_common(3))
    raise DataError(
        f"{root}: {len(beside)} files ({extensions}) lie beside {len(listing.classes)} folders "
        f"with {inside} files, as {listing.classes[0]}: folders are classes, and files beside them "
        "would be left out; remedy: each file in the folder of its class, or no folders, or a name "
        "that begins with a dot for what belongs to neither")
