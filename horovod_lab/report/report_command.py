"""The command `horovod-opt report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

NAME = "horovod-opt report"
FOLDERS = ("profile", "bench", "simulation")


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "report", help="put everything that was measured and simulated on one HTML page",
        description="Writes one HTML page, with every table and picture, from the JSON files of "
        "horovod-opt profile, bench and simulate. It needs no network and no other file. Files "
        "that cannot be used are named, the page is made from the others, and the exit status "
        "is 2.")
    parser.add_argument("paths", type=Path, nargs="*", metavar="FILE-OR-FOLDER",
                        help="JSON files, or folders with them "
                             f"(those of {', '.join(FOLDERS)} that are here)")
    parser.add_argument("--title", default="What Horovod's background thread costs, and what the "
                        "modes bring", help="(%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE",
                        help="(%(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from horovod_lab.measuring.documents import DocumentError, load
    from horovod_lab.report.page import KINDS, page

    paths = options.paths or [Path(name) for name in FOLDERS if Path(name).is_dir()]
    files = [file for path in paths
             for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    documents, unusable = [], 0
    for file in dict.fromkeys(files):
        try:
            documents.append((file, load(file, *KINDS)))
        except DocumentError as error:
            print(f"{NAME}: {error}", file=sys.stderr)
            unusable += 1
    if not documents:
        where = " ".join(map(str, paths)) or f"{', '.join(FOLDERS)}, none of which is here"
        print(f"{NAME}: there is nothing to show in {where}; remedy: horovod-opt profile, bench "
              "or simulate first", file=sys.stderr)
        return 2
    try:
        options.output.write_text(page(documents, options.title), encoding="utf-8")
    except OSError as error:
        print(f"{NAME}: {options.output} cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    print(f"Written: {options.output}, from {len(documents)} files")
    return 2 if unusable else 0
