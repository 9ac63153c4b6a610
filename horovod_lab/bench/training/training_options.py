"""The options of `horovod-opt bench training`."""

from __future__ import annotations

import argparse
from pathlib import Path

from horovod_lab.bench.suite_options import add_length, add_modes, add_output, add_plain
from horovod_opt.arguments import positive


def add(suites: argparse._SubParsersAction) -> None:
    parser = suites.add_parser(
        "training", help="train networks: images/s, weak or strong scaling, gain over off",
        description="Trains networks in each mode, interleaved, and shows images/s, what a mode "
        "brings over off, and how far it is from training without communication. Measurements are "
        "added to OUTPUT/bench.json: a benchmark that was interrupted goes on when it is started "
        "again. Exit status 2 if something cannot be measured, 130 if interrupted.")
    parser.add_argument("--models", default="ResNet50", metavar="NAMES",
                        help="of ResNet18, 34, 50, 101, 152, AlexNet, GoogLeNet, Inception-v3, "
                             "VGG16, or all (%(default)s)")
    add_modes(parser)
    parser.add_argument("--ranks", type=positive, nargs="+", default=[2, 4], metavar="N",
                        help="numbers of ranks (2 4)")
    parser.add_argument("--hosts", metavar="NAME:SLOTS,...", help="as -H of horovodrun")
    parser.add_argument("--hostfile", type=Path, metavar="FILE",
                        help="lines of NAME slots=N (default: those of the Slurm allocation, else "
                             "this host)")
    parser.add_argument("--batch", type=positive, metavar="N",
                        help="images a rank and step: weak scaling (32 with a GPU, else 4)")
    parser.add_argument("--global-batch", type=positive, metavar="N",
                        help="images a step of all ranks: strong scaling")
    parser.add_argument("--pixels", type=positive, metavar="N",
                        help="height and width of the images (as published: 224, 227 or 299)")
    parser.add_argument("--input", default="synthetic", metavar="KINDS",
                        help="synthetic, real (JPEGs that are decoded and distorted) or both as "
                             "synthetic,real (%(default)s)")
    parser.add_argument("--images", type=Path, metavar="FOLDER",
                        help="of the real input, made if it is not there (OUTPUT/images)")
    parser.add_argument("--framework", choices=("tensorflow", "torch"), default="tensorflow",
                        help="(%(default)s)")
    parser.add_argument("--tf-cnn-benchmarks", type=Path, metavar="PATH",
                        help="run the unmodified tf_cnn_benchmarks of this checkout instead")
    parser.add_argument("--batches", type=positive, default=20, metavar="N",
                        help="measured steps of tf_cnn_benchmarks (%(default)s)")
    parser.add_argument("--peers", action="store_true",
                        help="also measure MultiWorkerMirroredStrategy or PyTorch's DDP")
    parser.add_argument("--breakdown", action="store_true",
                        help="also measure where a step's time goes: computation, waiting for "
                             "ranks, negotiation, data")
    add_plain(parser)
    add_length(parser, seconds=6.0, timeout=900.0)
    parser.add_argument("--threads", type=positive, metavar="N",
                        help="intra-op threads of a rank (cores of this host / its most ranks)")
    add_output(parser, "bench.json and the pictures")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from horovod_lab.bench.training import training_suite

    return training_suite.run(options)
