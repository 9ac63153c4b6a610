"""The command `horovod-opt io bench`."""

from __future__ import annotations

import argparse
from pathlib import Path

from horovod_opt.arguments import positive, some_of
from horovod_opt.io.bench.peers import PEERS
from horovod_opt.measuring.suite_options import add_length, add_output

SUITES = ("records",)


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "bench", help="measure the input side beside other pipelines, on the same bytes",
        description="Writes the same records in the format of each pipeline, and runs all of them, "
        "interleaved, on several numbers of ranks: samples a second, CPU time, memory, and how "
        "complete the shuffle is. The others are those of .venv-peers, which make peers makes; "
        "without it py-lmdb and PyTorch are compared with. Measurements are added to "
        "OUTPUT/io-records.json: a benchmark that was interrupted goes on when it is started "
        "again. Exit status 2 if jobs failed, 130 if interrupted.")
    parser.add_argument("--suite", choices=SUITES, default=SUITES[0],
                        help="records: small ones, out of a warm page cache (%(default)s)")
    parser.add_argument("--only", type=some_of(PEERS), default=list(PEERS), metavar="PIPELINES",
                        help=f"to measure ({','.join(PEERS)})")
    parser.add_argument("--ranks", type=positive, nargs="+", default=[2, 4, 8], metavar="N",
                        help="numbers of ranks, each a process (2 4 8)")
    add_length(parser, seconds=3.0, timeout=300.0)
    parser.add_argument("--records", type=positive, default=50_000, metavar="N",
                        help="in the data set (%(default)s)")
    parser.add_argument("--record-bytes", type=positive, default=3072, metavar="BYTES",
                        help="of each (%(default)s)")
    parser.add_argument("--batch", type=positive, default=64, metavar="N",
                        help="samples of a rank's batch (%(default)s)")
    parser.add_argument("--targets", action="store_true",
                        help="also show which targets are met")
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="in place of OUTPUT/io-records.json; the picture is put beside it")
    parser.add_argument("--data", type=Path, metavar="FOLDER",
                        help="where the data is kept for the next time (OUTPUT/io-data)")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"), metavar="FOLDER",
                        help="the environment of the other pipelines (%(default)s)")
    add_output(parser, "io-records.json and io-records.png")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from horovod_opt.io.bench.suites.records import suite

    return suite.run(options)
