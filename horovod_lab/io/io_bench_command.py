"""The command `horovod-opt io bench`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from horovod_lab.bench.suite_options import add_length, add_output
from horovod_lab.io.crashes import DRAWN
from horovod_lab.io.data.jpegs import BYTES
from horovod_lab.io.ladder.place import MEMORY, SHARED_BUFFERS
from horovod_lab.io.peers import PEERS
from horovod_lab.io.savers import SAVERS, TIMED
from horovod_lab.io.strategies import RUNGS
from horovod_lab.io.suites.alexnet.results import PARTS
from horovod_lab.io.suites.stream.results import LABELS, PREPROCESSING
from horovod_lab.io.suites.training.jobs import SOURCES
from horovod_lab.measuring.launch import end_as_by_ctrl_c
from horovod_opt.arguments import above_zero, not_negative, positive, some_of

RECORDS, TRAINING, LMDB, STREAM, SAVING, ALEXNET = SUITES = (
    "records", "training", "lmdb", "stream", "savers", "alexnet")
# By suite: what options that were not given are.
DEFAULTS = {RECORDS: {"only": list(PEERS), "batch": [64]},
            TRAINING: {"only": list(SOURCES), "ranks": [2], "batch": [4], "seconds": 20.0,
                       "pixels": 96},
            LMDB: {"only": list(RUNGS), "ranks": [8], "nodes": 4, "batch": [2]},
            STREAM: {"only": list(LABELS), "ranks": [1], "nodes": 1, "batch": [64], "rounds": 6,
                     "seconds": 0.5, "pixels": 224, "timeout": 3600.0},
            SAVING: {"only": [*SAVERS, *TIMED], "batch": [1]},
            ALEXNET: {"only": list(PARTS), "batch": [16, 32, 64, 128], "rounds": 1, "pixels": 64,
                      "files": 768, "file_bytes": 12_000}}
WARM, DISK, PARALLEL = TESTBEDS = ("warm", "disk", "parallel")
# Of a suite, by testbed.
ON_TESTBEDS = {RECORDS: {
    WARM: {"only": [name for name in PEERS if name not in ("py-lmdb-strided", "torch-files")],
           "ranks": [2, 4, 8], "nodes": 1, "seconds": 3.0},
    DISK: {"only": ["hio-tfrecord", "hio-lmdb", "py-lmdb", "torch-files", "webdataset", "mosaicml"],
           "ranks": [2, 4, 8], "nodes": 1, "seconds": 10.0},
    PARALLEL: {"only": ["hio-tfrecord", "hio-lmdb", "py-lmdb-strided", "tf-data"], "ranks": [8],
               "nodes": 4, "seconds": 10.0}},
    STREAM: {WARM: {"files": 1024}, DISK: {"files": 512}, PARALLEL: {"files": 512}}}
THREADS = [1, 2, 4, 8]  # the source's
OF_ALL = {"rounds": 3, "timeout": 300.0, "file_bytes": BYTES}


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "bench", help="measure the input side beside other pipelines, on the same bytes",
        description="Suite records writes the same records in the format of each pipeline, and "
        "runs all of them, interleaved, on several numbers of ranks: samples a second, CPU time, "
        "memory, and how complete the shuffle is. The others are those of .venv-peers, which make "
        "peers makes; without it py-lmdb and PyTorch are compared with. Suite training trains "
        "ResNet50 in mode topo with several sources of input: images a second, and CPU time of "
        "the input. Suite lmdb reads an LMDB with LMDBIO's strategies: what each of them asks of "
        "the storage. Suite stream takes batches of JPEG files through tf.data: images a second "
        "by number of threads, batch and prefetching, decoded and only read. Suite savers crashes "
        "ways to save a checkpoint, those of .venv-savers, which make savers makes, and shows what "
        "their loaders find. Suite alexnet trains AlexNet on JPEG files: what prefetching hides of "
        "the input, and what checkpoints cost on a slow storage, a fast one, and by a "
        "BurstBuffer. "
        "Measurements are added to OUTPUT/io-SUITE.json: a benchmark that was "
        "interrupted goes on when it is started again. Exit status 2 if jobs failed, 130 if "
        "interrupted.")
    parser.add_argument("--suite", choices=SUITES, default=RECORDS,
                        help="records: small ones, out of a warm page cache; training: the same "
                        "bytes trained on; lmdb: LMDBIO's strategies; stream: JPEG files through "
                        "tf.data; savers: checkpoints and crashes; alexnet: a training with both "
                        "(%(default)s)")
    names = [*PEERS, *SOURCES, *RUNGS, *LABELS, *SAVERS, *TIMED, *PARTS]
    parser.add_argument("--only", type=some_of(names), metavar="PIPELINES",
                        help=f"to measure (all: of records {','.join(PEERS)}; of training "
                        f"{','.join(SOURCES)}; of lmdb {','.join(RUNGS)}; of stream "
                        f"{','.join(LABELS)}; of savers {','.join([*SAVERS, *TIMED])}; of "
                        f"alexnet {','.join(PARTS)})")
    parser.add_argument("--stand", choices=TESTBEDS, default=WARM,
                        help="of records, lmdb and stream: warm, the page cache; disk, 200 "
                        "requests a second; parallel, one server of several simulated nodes. The "
                        "latter two are made by root, and read from for the first time "
                        "(%(default)s)")
    parser.add_argument("--nodes", type=positive, metavar="N",
                        help="simulated ones, which share the ranks equally (1; of lmdb, and of "
                        "records on stand parallel, 4)")
    parser.add_argument("--share", type=above_zero("times the size of the data"), default=0.25,
                        metavar="PART", help="of records and lmdb, on stands disk and parallel: "
                        "how much of the data a node has memory for (%(default)s)")
    parser.add_argument("--ranks", type=positive, nargs="+", metavar="N",
                        help="numbers of ranks, each a process (2 4 8; on stand parallel "
                        "and of lmdb 8; of training 2, of stream 1)")
    add_length(parser, seconds=None, timeout=None, rounds=None, shown={
        "rounds": "3; of stream 6, of which the first is dropped",
        "seconds": "3; on stands disk and parallel 10; of training 20; of stream at least 0.5, in "
                   "whole epochs", "timeout": "300; of stream 3600"})
    parser.add_argument("--records", type=positive, default=50_000, metavar="N",
                        help="of suites records and lmdb: in the data set (%(default)s)")
    parser.add_argument("--record-bytes", type=positive, default=3072, metavar="BYTES",
                        help="of each (%(default)s)")
    parser.add_argument("--batch", type=positive, nargs="+", metavar="N",
                        help="samples of a rank's batch; of stream and alexnet one or several "
                        "sizes (64; of training 4, of lmdb 2, of alexnet 16 32 64 128)")
    parser.add_argument("--pixels", type=positive, metavar="N",
                        help="of training, stream and alexnet: height and width of images (96; of "
                        "stream 224, of alexnet 64)")
    _add_stream(parser)
    parser.add_argument("--steps", type=positive, default=100, metavar="N",
                        help="of alexnet: of a training with five checkpoints (%(default)s)")
    parser.add_argument("--width", type=above_zero("share"), default=0.5, metavar="SHARE",
                        help="of alexnet: channels and units as a share of AlexNet's (%(default)s)")
    parser.add_argument("--window", choices=SHARED_BUFFERS, default=MEMORY,
                        help="of lmdb: whose memory the ranks of a node share (%(default)s)")
    parser.add_argument("--coalesce-bytes", type=positive, default=2 << 20, metavar="BYTES",
                        help="of lmdb: of a read of strategies coal and stag (%(default)s)")
    parser.add_argument("--tokens", type=positive, default=1, metavar="N",
                        help="of lmdb: readers of strategy stag that read at the same time "
                        "(%(default)s)")
    parser.add_argument("--targets", action="store_true",
                        help="also show which targets are met")
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="in place of OUTPUT/io-SUITE.json; pictures are put beside it")
    parser.add_argument("--data", type=Path, metavar="FOLDER",
                        help="where the data is kept for the next time (OUTPUT/io-data)")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"), metavar="FOLDER",
                        help="the environment of the other pipelines (%(default)s)")
    parser.add_argument("--savers", type=Path, default=Path(".venv-savers"), metavar="FOLDER",
                        help="the environment of the savers (%(default)s)")
    parser.add_argument("--drawn", type=positive, default=DRAWN, metavar="N",
                        help="of savers: subsets drawn where there are over 1024 (%(default)s)")
    add_output(parser, "io-SUITE.json, and pictures")
    parser.set_defaults(run=_run_until_ended)


def _add_stream(parser: argparse.ArgumentParser) -> None:
    """Of suite stream only."""
    parser.add_argument("--threads", type=positive, nargs="+", default=THREADS, metavar="N",
                        help="of stream and alexnet: that read, and decode (1 2 4 8)")
    parser.add_argument("--prefetch", type=not_negative, nargs="+", default=[0, 1], metavar="N",
                        help="of stream and alexnet: batches that are made ahead (0 1)")
    parser.add_argument("--files", type=positive, metavar="N",
                        help="of stream and alexnet: JPEGs (1024; on stands disk and parallel 512; "
                        "of alexnet 768; the source has 16384 and 9144)")
    parser.add_argument("--file-bytes", type=positive, metavar="BYTES",
                        help=f"of stream and alexnet: the median of their sizes ({BYTES}; of "
                        "alexnet 12000)")
    parser.add_argument("--preprocessing", choices=PREPROCESSING, nargs="+",
                        default=list(PREPROCESSING),
                        help="of stream: with: JPEGs are decoded and resized; without: only read "
                        "(without with)")
    parser.add_argument("--step-seconds", type=above_zero("seconds"), default=0.0, metavar="S",
                        help="of stream: that the process sleeps after each batch, as it does "
                        "while a GPU trains on it (0)")


def _run_until_ended(options: argparse.Namespace) -> int:
    with end_as_by_ctrl_c():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    defaults = {**OF_ALL, **DEFAULTS[options.suite]}
    of_testbed = ON_TESTBEDS.get(options.suite, {}).get(options.stand, {})
    for name, value in {**defaults, **of_testbed}.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    foreign_names = [name for name in options.only if name not in defaults["only"]]
    if foreign_names:
        print(f"horovod-opt io bench: --only: suite {options.suite} has no "
              f"{', '.join(foreign_names)}; remedy: some of {', '.join(defaults['only'])}",
              file=sys.stderr)
        return 2
    if options.suite in (SAVING, ALEXNET) and options.stand != WARM:
        print(f"horovod-opt io bench: --stand {options.stand}: suite {options.suite} has "
              "storages of its own; remedy: no --stand", file=sys.stderr)
        return 2
    if options.suite == TRAINING and options.stand != WARM:
        print(f"horovod-opt io bench: --stand {options.stand}: suite {options.suite} reads out of "
              "the page cache; remedy: --suite records", file=sys.stderr)
        return 2
    if options.suite not in (STREAM, ALEXNET):
        if len(options.batch) > 1:
            print(f"horovod-opt io bench: --batch {' '.join(map(str, options.batch))}: suite "
                  f"{options.suite} takes one size; remedy: one of them, or --suite {STREAM}",
                  file=sys.stderr)
            return 2
        options.batch, = options.batch
    if options.suite == TRAINING:
        from horovod_lab.io.suites.training import suite
    elif options.suite == LMDB:
        from horovod_lab.io.suites.lmdb import suite
    elif options.suite == SAVING:
        from horovod_lab.io.suites.savers import suite
    elif options.suite == ALEXNET:
        from horovod_lab.io.suites.alexnet import suite
    elif options.suite == STREAM:
        from horovod_lab.io.suites.stream import suite
    else:
        from horovod_lab.io.suites.records import suite
    return suite.run(options)
