"""The command `horovod-opt pack`: many small files become a few tars."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from horovod_opt.arguments import not_negative, positive
from horovod_opt.io.commands.exit_status import exit_status
from horovod_opt.io.progress import show_bar

TYPE_CHECKING = False  # the command starts without numpy
if TYPE_CHECKING:
    from horovod_opt.io.index.pack_index import PackIndex

NAME = "horovod-opt pack"
LEVEL = 3  # of zstd, its own default


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "pack", help="write many small files as a few tars, for hio.open and WebDataset",
        description="Writes all files of a folder, or of tars, into plain tars in the folder OUT, "
        "with an index: samples, which are files of one name up to its first dot, are mixed, so "
        "that neighbours are of any class. What was interrupted goes on when it is started again, "
        "with the same bytes. Exit status 0 if all is packed, 1 if something cannot be, or "
        "--verify finds something, 2 if the arguments cannot be used.")
    parser.add_argument("sources", nargs="+", metavar="SOURCE",
                        help="a folder; or tars: paths or quoted globs")
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder, new or empty")
    parser.add_argument("--files", metavar="LIST",
                        help="only the files that LIST names, a line each, relative to the folder; "
                        "- for standard input")
    parser.add_argument("--strip-components", type=not_negative, default=0, metavar="N",
                        help="leave out the first N folders of paths in tars")
    parser.add_argument("--part-size", default="256MiB", metavar="SIZE",
                        help="what a tar has at most, unless one sample has more (%(default)s)")
    parser.add_argument("--seed", type=not_negative, default=0, metavar="N",
                        help="of the mixing (%(default)s)")
    parser.add_argument("--zstd", type=int, nargs="?", const=LEVEL, metavar="LEVEL",
                        help=f"compress each file that becomes smaller, level 1 to 19 ({LEVEL})")
    parser.add_argument("--threads", type=positive, default=16, metavar="N",
                        help="that read and compress files (%(default)s)")
    parser.add_argument("--verify", action="store_true",
                        help="read OUT, and compare it with its index and with the originals")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    return exit_status(NAME, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    from horovod_opt.io.errors import InputError
    from horovod_opt.io.formats.compression import LEVELS
    from horovod_opt.io.memory_limit import parse
    from horovod_opt.io.pack.comparison import compare
    from horovod_opt.io.pack.listing import list_source
    from horovod_opt.io.pack.packer import pack
    from horovod_opt.io.pack.plan import Options

    if options.zstd is not None and options.zstd not in LEVELS:
        raise InputError(f"--zstd {options.zstd}; remedy: a level from {LEVELS[0]} to {LEVELS[-1]}")
    for source in options.sources:
        out, inside = os.path.realpath(options.out), os.path.realpath(source)
        if os.path.isdir(source) and os.path.commonpath([out, inside]) == inside:
            raise InputError(f"OUT {options.out} is in {source}, which is packed; remedy: a folder "
                             "beside it")
    listing = list_source(options.sources, _names(options.files), options.strip_components)
    if options.verify:
        with show_bar("Comparing") as progress:
            lines = compare(listing, options.out, progress)
        print(*lines, f"{len(listing.paths)} files compared, {len(lines)} differences", sep="\n")
        return int(bool(lines))
    of_bytes = Options(parse(options.part_size, "--part-size"), options.seed, options.zstd)
    with show_bar("Packing") as progress:
        done = pack(listing, options.out, of_bytes, options.threads, progress)
    title = "Packed" if done.written else "Up to date"
    print(f"{title}: {_describe(done.index)}; {done.written} tars written")
    return 0


def _names(path: str | None) -> Iterator[str] | None:
    from horovod_opt.io.errors import InputError

    if path is None:
        return None
    if path == "-":
        return iter(sys.stdin)
    try:
        return iter(open(path, encoding="utf-8", errors="surrogateescape").readlines())
    except OSError as error:
        raise InputError(f"--files {path}: {error.strerror}; remedy: a file with a name in each "
                         "line") from error


def _describe(index: PackIndex) -> str:
    from rich.filesize import decimal

    classes = f", {len(index.classes)} classes" if index.classes else ""
    raw, stored = int(index.raw_size.sum()), int(index.size.sum())
    compressed = f" as {decimal(stored)}" if stored < raw else ""
    return (f"{len(index.file)} files{classes}, {index.samples} of them samples, {decimal(raw)}"
            f"{compressed}, in {len(index.names)} tars")
