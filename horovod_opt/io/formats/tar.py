"""tar as WebDataset writes it: adjacent members of one name up to its first dot are a sample."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator

import numpy as np

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats.columns import Scan, Texts
from horovod_opt.io.formats.read_buffer import cannot_read

# What tarfile raises for headers that are no headers, beside its own errors.
_BROKEN = (tarfile.TarError, ValueError, IndexError, EOFError, OverflowError, RecursionError,
           MemoryError)

ONCE = "give each member its own; tar --sort=name of a folder writes each file once"


class Part:
    """A file in a tar: `key` and `part` of its name; `offset` and `size` of its contents, bytes."""

    __slots__ = ("key", "name", "offset", "part", "size")

    def __init__(self, name: str, key: str, part: str, offset: int, size: int):
        self.name = name
        self.key = key
        self.part = part
        self.offset = offset
        self.size = size


def scan(path: str, size: int) -> Scan:
    """The samples of the first `size` bytes of a tar; parts are in the order of the first sample.

    Members without an extension and hidden ones belong to no sample, as with WebDataset. Raises
    DataError, with file and member, for what cannot be read by its offset or would be ambiguous:
    links, sparse members, devices, absolute paths and `..`, names that come twice or are not
    UTF-8, samples that are not adjacent or lack a part of the others, a truncated file.
    """
    samples: dict[str, dict[str, Part]] = {}
    last = None
    for part in _parts(path, size):
        if part.key != last and part.key in samples:
            raise _refusal(path, part.name, f"sample {part.key!r} has begun before, and other "
                           "members are between", "write a sample's members one after another, as "
                           "tar --sort=name does")
        last = part.key
        if samples.setdefault(part.key, {}).setdefault(part.part, part) is not part:
            raise _refusal(path, part.name, "this name comes twice", ONCE)
    first = next(iter(samples.values()), {})
    for key, sample in samples.items():
        if sample.keys() != first.keys():
            raise differing_parts((path, next(iter(samples)), first), (path, key, sample))
    shape = (len(samples), len(first))
    rows = [[sample[name] for name in first] for sample in samples.values()]
    return Scan(tuple(first),
                np.array([[part.offset for part in row] for row in rows], np.int64).reshape(shape),
                np.array([[part.size for part in row] for row in rows], np.int64).reshape(shape),
                keys=Texts.of(key.encode() for key in samples))


def differing_parts(first: tuple[str, str, Iterable[str]],
                    second: tuple[str, str, Iterable[str]]) -> DataError:
    """Two samples, each (file, key, names of parts), that are not alike."""
    (path, key, parts), (second_path, second_key, second_parts) = first, second
    return DataError(f"{second_path}: sample {second_key!r} has the parts {sorted(second_parts)}, "
                     f"but sample {key!r} of {path} has {sorted(parts)}; remedy: give all samples "
                     "the same parts, or leave the incomplete ones out")


def _parts(path: str, size: int) -> Iterator[Part]:
    """The members that are parts of samples, in the file's order."""
    position, names = 0, set()
    try:
        archive = tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise cannot_read(path, error) from error
    except _BROKEN as error:
        raise _damage(path, 0, error) from error
    with archive:
        while True:
            try:
                archive.fileobj.seek(position)
                member = tarfile.TarInfo.fromtarfile(archive)
            except tarfile.EOFHeaderError:
                return
            except OSError as error:
                raise cannot_read(path, error, position) from error
            except _BROKEN as error:
                raise _damage(path, position, error) from error
            _check(path, member)
            if member.name in names:
                raise _refusal(path, member.name, "this name comes twice", ONCE)
            position = member.offset_data
            if member.isdir():
                continue
            names.add(member.name)
            if member.offset_data + member.size > size:
                raise DataError(f"{path}: truncated: {member.name!r} would end at byte "
                                f"{member.offset_data + member.size}, but the file at {size}; "
                                "remedy: copy or make the file again")
            position += -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            folder, slash, base = member.name.rpartition("/")
            stem, dot, extension = base.partition(".")
            if stem and dot:
                yield Part(member.name, folder + slash + stem, extension.lower(),
                           member.offset_data, member.size)


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


def _damage(path: str, position: int, error: BaseException) -> DataError:
    if isinstance(error, (tarfile.EmptyHeaderError, tarfile.TruncatedHeaderError)):
        damage = f"truncated: the file ends at byte {position} without the mark of its end"
    else:
        damage = f"no header of a tar member at byte {position} ({error}); it may be compressed"
    return DataError(f"{path}: {damage}; remedy: copy or make the file again, as plain tar")
