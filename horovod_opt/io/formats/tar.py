"""tar as WebDataset writes it: adjacent members of one name up to its first dot are a sample."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

import numpy as np

from horovod_opt.io.errors import DataError, TruncatedFile
from horovod_opt.io.formats.columns import Scan, Texts
from horovod_opt.io.formats.read_buffer import AGAIN_OR_PART, cannot_read, with_nothing_before
from horovod_opt.io.formats.unpacked_file import UnpackedFile

# What tarfile raises for headers that are no headers, beside its own errors.
_BROKEN = (tarfile.TarError, ValueError, IndexError, EOFError, OverflowError, RecursionError,
           MemoryError)

MOST_PARTS = 64  # more are no parts, but names with dots in them
ONCE = "give each member its own; tar --sort=name of a folder writes each file once"


class Part:
    """A file in a tar: `key` and `part` of its name; `offset` and `size` of its contents, bytes,
    and their crc32c, where these are looked at."""

    __slots__ = ("crc", "key", "name", "offset", "part", "size")

    def __init__(self, name: str, key: str, part: str, offset: int, size: int, crc: int):
        self.name = name
        self.key = key
        self.part = part
        self.offset = offset
        self.size = size
        self.crc = crc


def scan(path: str, size: int, keep_truncated: bool = False, packed: UnpackedFile | None = None,
         checksums: bool = False) -> Scan:
    """The samples of the first `size` bytes of a tar, or of all contents of one that is `packed`,
    which is gone through once, with `checksums` of what it holds; parts are in the order in which
    they come.

    Members without an extension and hidden ones belong to no sample, as with WebDataset. Raises
    DataError, with file and member, for what cannot be read by its offset or would be ambiguous:
    links, sparse members, devices, absolute paths and `..`, names that come twice or are not
    UTF-8, samples that are not adjacent. Raises TruncatedFile; not with `keep_truncated`, if a
    sample is whole.
    """
    samples: dict[str, dict[str, Part]] = {}
    last, truncation = None, ""
    try:
        for part in _parts(path, size, packed, checksums):
            if part.key != last and part.key in samples:
                raise _refusal(path, part.name, f"sample {part.key!r} has begun before, and other "
                               "members are between", "write a sample's members one after another, "
                               "as tar --sort=name does")
            last = part.key
            if samples.setdefault(part.key, {}).setdefault(part.part, part) is not part:
                raise _refusal(path, part.name, "this name comes twice", ONCE)
    except TruncatedFile as error:
        _drop_begun(samples)
        if not keep_truncated:
            raise
        if not samples:
            raise with_nothing_before(error) from error
        truncation = str(error)
    parts = tuple(dict.fromkeys(name for sample in samples.values() for name in sample))
    check_parts(path, parts)
    shape = (len(samples), len(parts))
    rows = [[(sample[name].offset, sample[name].size, sample[name].crc) if name in sample
             else (0, 0, 0) for name in parts] for sample in samples.values()]
    offset, size, crc = np.array(rows, np.int64).reshape(*shape, 3).transpose(2, 0, 1)
    return Scan(parts, offset, size, crc.astype(np.uint32) if checksums else None,
                Texts.of(key.encode() for key in samples), truncation=truncation)


def check_parts(path: str, parts: Sequence[str]) -> None:
    """Raises DataError for more parts than samples can have."""
    if len(parts) > MOST_PARTS:
        raise DataError(f"{path}: samples have {len(parts)} parts or more, as "
                        f"{', '.join(parts[:5])}: a part is all behind a name's first dot; remedy: "
                        "names such as 0001.jpg and 0001.cls")


def _drop_begun(samples: dict[str, dict[str, Part]]) -> None:
    """The last one, unless it has what the first one has: of others nobody knows what is lost."""
    last = next(reversed(samples), None)
    if last is not None and (len(samples) == 1 or samples[last].keys()
                             < next(iter(samples.values())).keys()):
        del samples[last]


def differing_parts(first: tuple[str, str, Iterable[str]],
                    second: tuple[str, str, Iterable[str]]) -> DataError:
    """Two samples, each (file, key, names of parts), that are not alike."""
    (path, key, parts), (second_path, second_key, second_parts) = first, second
    return DataError(f"{second_path}: sample {second_key!r} has the parts {sorted(second_parts)}, "
                     f"but sample {key!r} of {path} has {sorted(parts)}; remedy: parts= of open "
                     "for those that all have, lacking='skip' to leave samples out that lack one, "
                     "or lacking='keep'")


def _parts(path: str, size: int, packed: UnpackedFile | None, checksums: bool) -> Iterator[Part]:
    """The members that are parts of samples, in the file's order."""
    for member in members(path, size, packed):
        stem, extension = stem_of(member.name)
        if stem and not member.isdir():
            crc = 0 if packed is None else packed.go_over(member.offset_data, member.size,
                                                          checksums)
            yield Part(member.name, stem, extension.lower(), member.offset_data, member.size, crc)


def stem_of(name: str) -> tuple[str, str]:
    """A path up to the first dot of its last name, and what follows the dot: files with the same
    stem are a sample. Both "" for a name that has no dot, or begins with one."""
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    return (folder + slash + stem, extension) if stem and dot else ("", "")


def members(path: str, size: int, packed: UnpackedFile | None = None
            ) -> Iterator[tarfile.TarInfo]:
    """Files and folders in the first `size` bytes of a tar, or of the contents of one that is
    `packed`, in order. Raises DataError as `scan` does, but for what only samples need."""
    position, names = 0, set()
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(tarfile.open(
                path, "r:", packed, encoding="utf-8", errors="surrogateescape"))
        except OSError as error:
            raise cannot_read(path, error) from error
        except _BROKEN as error:
            raise _damage(path, 0, error, packed) from error
        while True:
            try:
                archive.fileobj.seek(position)
                member = tarfile.TarInfo.fromtarfile(archive)
            except tarfile.EOFHeaderError:
                return
            except OSError as error:
                raise cannot_read(path, error, position) from error
            except _BROKEN as error:
                raise _damage(path, position, error, packed) from error
            _check(path, member)
            if member.name in names:
                raise _refusal(path, member.name, "this name comes twice", ONCE)
            position = member.offset_data
            if not member.isdir():
                names.add(member.name)
                if packed is None and member.offset_data + member.size > size:
                    raise TruncatedFile(f"{path}: truncated: {member.name!r} would end at byte "
                                        f"{member.offset_data + member.size}, but the file at "
                                        f"{size}; {AGAIN_OR_PART}")
                position += -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            yield member


def _check(path: str, member: tarfile.TarInfo) -> None:
    name = member.name
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _refusal(path, name, "its name is not UTF-8", "rename it") from None
    if member.issym() or member.islnk():
        raise _refusal(path, name, f"it is a link to {member.linkname!r}", "write the contents: "
                       "tar --dereference --hard-dereference")
    if member.issparse():
        raise _refusal(path, name, "it is sparse", "write it whole: tar without --sparse")
    if not (member.isdir() or member.isreg()):
        raise _refusal(path, name, "it is neither a file nor a folder", "leave it out")
    if name.startswith("/") or ".." in name.split("/"):
        raise _refusal(path, name, "its path leaves the archive", "write paths relative to a "
                       "folder, without ..")
    if member.size < 0:
        raise _refusal(path, name, f"its size is {member.size}", "make the file again")


def _refusal(path: str, name: str, why: str, remedy: str) -> DataError:
    return DataError(f"{path}: member {ascii(name)}: {why}; remedy: {remedy}")


def _damage(path: str, position: int, error: BaseException,
            packed: UnpackedFile | None) -> DataError:
    if packed is not None:
        packed.has_more()  # an error, where the compressed data is to blame
    if isinstance(error, (tarfile.EmptyHeaderError, tarfile.TruncatedHeaderError)):
        damage = f"truncated: the file ends at byte {position} without the mark of its end"
        return TruncatedFile(f"{path}: {damage}; {AGAIN_OR_PART}")
    damage = f"no header of a tar member at byte {position} ({error}); it may be compressed"
    if position:
        return TruncatedFile(f"{path}: {damage}; {AGAIN_OR_PART}")
    return DataError(f"{path}: {damage}; remedy: copy or make the file again, as plain tar")
