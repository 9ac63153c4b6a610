"""Writing records in the format of each pipeline, with the pipeline's own writer where it has one.

A function of FORMATS writes all records into an empty folder, in about `FILES` files of equal size
where the format has several. Distributions that a writer needs are imported by it.
"""

from __future__ import annotations

import io
import itertools
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from horovod_lab.io.data.records import Records

FILES = 16  # every rank and worker of the largest job gets one
KEY = b"%08d"  # of record i in LMDB: in the order of the numbers
PER_TRANSACTION = 10_000  # records
PER_FOLDER = 1000  # files


def tfrecord(folder: Path, records: Records) -> None:
    from horovod_opt.io.formats.tfrecord import HEAD, TAIL, mask
    from horovod_opt.io.native import crc32c

    for name, part in _parts(records, "part-{:05}.tfrecord"):
        with (folder / name).open("wb") as file:
            for record in part:
                length = len(record).to_bytes(8, "little")
                file.write(HEAD.pack(len(record), mask(crc32c(length))))
                file.write(record)
                file.write(TAIL.pack(mask(crc32c(record))))


def lmdb(folder: Path, records: Records) -> None:
    import lmdb

    size = 2 * records.count * (records.size + 4096) + (16 << 20)
    with lmdb.open(str(folder), map_size=size) as environment:
        pairs = enumerate(records)
        while block := list(itertools.islice(pairs, PER_TRANSACTION)):
            with environment.begin(write=True) as transaction:
                for number, record in block:
                    transaction.put(KEY % number, record, append=True)


def tar(folder: Path, records: Records) -> None:
    """In WebDataset's layout."""
    number = itertools.count()
    for name, part in _parts(records, "shard-{:05}.tar"):
        with tarfile.open(folder / name, "w", format=tarfile.USTAR_FORMAT) as archive:
            for record in part:
                member = tarfile.TarInfo(f"{next(number):08}.bin")
                member.size = len(record)
                archive.addfile(member, io.BytesIO(record))


def array_record(folder: Path, records: Records) -> None:
    """Groups of one record, as Grain wants them for access in any order."""
    from array_record.python.array_record_module import ArrayRecordWriter

    for name, part in _parts(records, "part-{:05}.array_record"):
        writer = ArrayRecordWriter(str(folder / name), "group_size:1,uncompressed")
        for record in part:
            writer.write(record)
        writer.close()


def mds(folder: Path, records: Records) -> None:
    from horovod_lab.io.peers.streaming_datasets import import_torchvision

    import_torchvision()
    from streaming import MDSWriter

    with MDSWriter(out=str(folder), columns={"data": "bytes"},
                   size_limit=_part_bytes(records)) as writer:
        for record in records:
            writer.write({"data": record})


def litdata(folder: Path, records: Records) -> None:
    from litdata.streaming.cache import Cache

    cache = Cache(str(folder), chunk_bytes=_part_bytes(records))
    for number, record in enumerate(records):
        cache[number] = record
    cache.done()
    cache.merge()


def files(folder: Path, records: Records) -> None:
    """A file of each, a thousand in a folder."""
    for number, record in enumerate(records):
        path = folder / file_of(number)
        if not number % PER_FOLDER:
            path.parent.mkdir()
        path.write_bytes(record)


def file_of(number: int) -> str:
    """Of record `number` of the format files."""
    return f"{number // PER_FOLDER:05}/{number:08}.bin"


FORMATS: dict[str, Callable[[Path, Records], None]] = {
    writer.__name__: writer for writer in (tfrecord, lmdb, tar, array_record, mds, litdata, files)}


def _parts(records: Records, name: str) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Names of files, and the records of each: equal runs."""
    stream = iter(records)
    for number in range(FILES):
        first, end = (records.count * part // FILES for part in (number, number + 1))
        yield name.format(number), itertools.islice(stream, end - first)


def _part_bytes(records: Records) -> int:
    """For formats that begin a new file at a size."""
    return records.count * (records.size + 64) // FILES + 4096
