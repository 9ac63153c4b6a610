"""The options of `horovod-opt io bench` that only the suite stream has."""

from __future__ import annotations

import argparse

from horovod_lab.io.jpegs.files import BYTES
from horovod_lab.io.suites.stream.jobs import PREPROCESSING
from horovod_opt.arguments import above_zero, not_negative, positive

THREADS = [1, 2, 4, 8]  # the source's


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=positive, nargs="+", default=THREADS, metavar="N",
                        help="of stream: that read, and decode (1 2 4 8)")
    parser.add_argument("--prefetch", type=not_negative, nargs="+", default=[0, 1], metavar="N",
                        help="of stream: batches that are made ahead (0 1)")
    parser.add_argument("--files", type=positive, metavar="N",
                        help="of stream: JPEGs (1024; on stands disk and parallel 512; the source "
                        "has 16384)")
    parser.add_argument("--file-bytes", type=positive, default=BYTES, metavar="BYTES",
                        help="of stream: the median of their sizes (%(default)s)")
    parser.add_argument("--preprocessing", choices=PREPROCESSING, nargs="+",
                        default=list(PREPROCESSING),
                        help="of stream: with: JPEGs are decoded and resized; without: only read "
                        "(without with)")
    parser.add_argument("--step-seconds", type=above_zero("seconds"), default=0.0, metavar="S",
                        help="of stream: that the process sleeps after each batch, as it does "
                        "while a GPU trains on it (0)")
