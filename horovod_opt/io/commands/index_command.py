"""The command `horovod-opt io index`."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from horovod_opt.io.progress import show_bar

TYPE_CHECKING = False  # the command starts without numpy
if TYPE_CHECKING:
    from horovod_opt.io.index import Index

NAME = "horovod-opt io index"
PATTERN = ("a path or a quoted glob of TFRecord or tar files, an LMDB, or a folder of files with "
           "its classes as folders; several are one data set")


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "index", help="find the samples of a data set, once, so that jobs start at once",
        description="Reads all files once, in parallel, and keeps where each sample is, with its "
        "checksum: beside the data, or in $XDG_CACHE_HOME where that is read-only. An index that "
        "still fits the files is left as it is. Exit status 1 if the data cannot be indexed.")
    parser.add_argument("patterns", nargs="+", metavar="PATTERN", help=PATTERN)
    parser.add_argument("--rebuild", action="store_true",
                        help="build it again, whatever there is")
    parser.add_argument("--no-checksums", action="store_false", dest="checksums",
                        help="do not read the data: quicker, but corrupt samples are not found, "
                             "except in TFRecord files, which hold checksums themselves")
    parser.add_argument("--bad", choices=("raise", "skip"), default="raise",
                        help="skip: of truncated files index the samples before that, for jobs "
                             "with bad='skip' (%(default)s)")
    parser.add_argument("--output", type=Path, metavar="FILE",
                        help="where it is kept; jobs then need index=FILE, too")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from horovod_opt.io import index as indexes
    from horovod_opt.io.errors import DamagedRecords, DataError

    pattern = data_pattern(options)
    try:
        index = None if options.rebuild else _load(pattern, options)
        if index is not None:
            print(f"Up to date: {_describe(index)}")
            return 0
        with warnings.catch_warnings(record=True) as warning_list:
            warnings.simplefilter("always", DamagedRecords)
            with show_bar("Indexing") as progress:
                index = indexes.build(pattern, options.checksums, progress, options.output,
                                      keep_truncated=options.bad == "skip")
    except DataError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    for warning in warning_list:
        print(f"{NAME}: {warning.message}", file=sys.stderr)
    print(f"Indexed: {_describe(index)}")
    return 0


def _load(pattern: str | list[str], options: argparse.Namespace) -> Index | None:
    """The index that is there, if it has what is asked for."""
    from horovod_opt.io import index as indexes

    try:
        index = indexes.load(pattern, options.output, checksums=options.checksums)
    except (indexes.Missing, indexes.Stale, indexes.Damaged):
        return None
    if index.crc is None and options.checksums:
        return None
    return indexes.refuse_truncated(index, options.bad == "skip")


def _describe(index: Index) -> str:
    from rich.filesize import decimal

    classes = f", {len(index.classes)} classes" if index.classes else ""
    parts = f" of {', '.join(index.parts)}" if index.parts != ("",) else ""
    checksums = "with" if index.crc is not None else "without"
    truncated = "".join(f"\nTruncated: {text}" for text in index.truncations)
    return (f"{index.format}, {len(index.files)} files, {index.samples} samples{parts}{classes}, "
            f"{decimal(int(index.size.sum()))}, {checksums} checksums\n"
            f"Kept in: {index.place}{truncated}")


def data_pattern(options: argparse.Namespace) -> str | list[str]:
    """What `hio.open` is given for the same data: one text, or a list of several."""
    return options.patterns[0] if len(options.patterns) == 1 else options.patterns
