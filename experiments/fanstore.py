"""Files that a program opens by their paths: from a pack, and through other file systems.

A program reads files of 128 KiB to 8 MiB, each whole, in a random order: from a folder, by
`horovod-opt io run` from a pack of it, plain and with zstd, through a passthrough of FUSE (bindfs),
and from SquashFS, not compressed, by the kernel and by squashfuse_ll. All of it is in memory, so
that what a file costs beside its device is seen; the source's device is a solid-state disk. Systems
are measured in turn, several rounds. What programs got is compared by checksums. It was recorded
while other programs kept the cores busy, so ratios within rounds are compared, and their spread is
wide.

Then 2 and 4 nodes, network namespaces of this machine with links of 200 Mbit/s, each of which has
every second or fourth tar, read all files at once, with four threads each. Such links can bring a
node (N - 1)/N of the data in a time that is known; what is compared with the source's scaling from
4 nodes to 16 is how much of that is reached, and compressed data with plain. Nodes share this
machine's cores, so links of the source's speed, and Figure 6, are out of reach.

The training of Figure 10 is not built: the source's 2.8 to 11.6 % depend on what it computes. How
training goes by storage (Figures 4, 7 to 9) is `horovod-opt io bench`'s.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from study import Study, record

from horovod_lab.io.files import benchmark
from horovod_lab.io.files.benchmark import FOLDER, OURS, OURS_ZSTD, SIZES
from horovod_lab.measuring import documents
from horovod_lab.measuring.literature import FANSTORE
from horovod_lab.measuring.present import Grid, Section, number
from horovod_lab.report.source import Beside
from horovod_opt.arguments import positive

FILE = "fanstore"
SMALL, LARGE = list(SIZES)[0], list(SIZES)[-1]
PASSTHROUGH, SQUASHFUSE = "FUSE passthrough", "squashfuse_ll"
MIB = 1 << 20


class Benchmark:
    passes_on = ""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--mib", type=positive, default=64, metavar="N",
                            help="of files of each size (%(default)s)")
        parser.add_argument("--rounds", type=positive, default=5, metavar="N", help="(%(default)s)")
        parser.add_argument("--nodes", type=positive, nargs="*", default=[2, 4], metavar="N",
                            help="as root (2 4); none: on one node alone")
        parser.add_argument("--link", type=positive, default=200, metavar="MBIT",
                            help="of each node, Mbit/s (%(default)s)")
        parser.add_argument("--targets", action="store_true",
                            help="also says which of the design's targets are met")

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        document = documents.new(FILE, ["python", "experiments/fanstore.py"])
        document |= {"mib": options.mib, "rounds": options.rounds, "link": options.link,
                     "packs": [], "single": [], "several": []}

        def measure(console: Console) -> None:
            with tempfile.TemporaryDirectory() as work:
                _measure(options, Path(work), document, console)

        status = record(measure, document, folder / f"{FILE}.json", section)
        if options.targets and not status:
            for line in targets(document):
                print(line)
        return status


def _measure(options: argparse.Namespace, work: Path, document: dict[str, Any],
             console: Console) -> None:
    for mount in benchmark.MOUNTS:
        if mount.why_not():
            console.print(f"Not measured: {mount.name}: {mount.why_not()}")
    files = work / "files"
    benchmark.make_files(files, options.mib * MIB)
    packs = {}
    for round_number in range(options.rounds):
        for kind in benchmark.PACKS:
            packs[kind] = work / f"{kind}-{round_number}"
            seconds = benchmark.pack(files, packs[kind], kind)
            tars = sum(tar.stat().st_size for tar in packs[kind].glob("*.tar"))
            document["packs"].append({"round": round_number, "pack": kind, "seconds": seconds,
                                      "bytes": tars})
    console.print("Packed.")
    document["single"] = list(benchmark.single(files, packs, work, options.rounds))
    console.print("One node read.")
    document["several"] = list(benchmark.several(packs, work, options.nodes, options.link,
                                                 options.rounds))
    checksums = {(row["folder"], row["crc"]) for row in document["single"] + document["several"]}
    if len(checksums) != len(SIZES):
        raise OSError("programs got other bytes than the folder has")


def over(rows: Sequence[dict[str, Any]], size: str, key: str, one: str, other: str) -> list[float]:
    """In each round: how many times as fast `one` read as `other` did."""
    seconds = {(row["round"], row[key]): row["seconds"] for row in rows if row["folder"] == size}
    return [seconds[number, other] / seconds[number, one]
            for number, name in sorted(seconds) if name == one and (number, other) in seconds]


def of_links(document: dict[str, Any], nodes: int, size: str) -> list[float]:
    """The part of the links' speed that nodes had, in each round. They read all twice, and the
    second time is measured."""
    rows = [row for row in document["several"]
            if (row["nodes"], row["folder"], row["pack"]) == (nodes, size, "plain")]
    return [row["bytes"] / nodes * (nodes - 1) / nodes / (document["link"] * 1e6 / 8)
            / row["seconds"] for row in rows]


def several_over(document: dict[str, Any], nodes: int, size: str) -> list[float]:
    """How many times as fast compressed data is read as plain."""
    return over([row for row in document["several"] if row["nodes"] == nodes], size, "pack", "zstd",
                "plain")


def packing(document: dict[str, Any]) -> list[float]:
    """The time with compression over that without, in each round."""
    seconds = {(row["round"], row["pack"]): row["seconds"] for row in document["packs"]}
    return [seconds[number, "zstd"] / seconds[number, "plain"]
            for number, kind in sorted(seconds) if kind == "plain"]


def compare(found: Sequence[dict[str, Any]]) -> list[Beside]:
    return [beside for document in found for beside in _besides(document)]


def _besides(document: dict[str, Any]) -> Iterator[Beside]:
    single = document["single"]
    most = max((row["nodes"] for row in document["several"]), default=0)
    for size in (SMALL, LARGE):
        for name, values in (
                ("folder", over(single, size, "system", OURS, FOLDER)),
                ("fuse", over(single, size, "system", OURS, PASSTHROUGH)),
                ("links", of_links(document, most, size)),
                ("zstd", over(single, size, "system", OURS_ZSTD, OURS)),
                ("zstd, nodes", several_over(document, most, size))):
            if values:
                nodes = most if name in ("links", "zstd, nodes") else 1
                yield Beside(FANSTORE[name], statistics.median(values),
                             f"files of {size}, {nodes} node{'s' * (nodes > 1)}")
    yield Beside(FANSTORE["pack"], statistics.median(packing(document)), "zstd, level 3")


def spread(values: Sequence[float], scale: float = 1) -> str:
    """The median, smallest to largest."""
    if not values:
        return ""
    ends = " to ".join(number(scale * value) for value in (min(values), max(values)))
    return f"{number(scale * statistics.median(values))} ({ends})"


def section(document: dict[str, Any]) -> Section:
    systems = list(dict.fromkeys(row["system"] for row in document["single"]))
    systems.sort(key=lambda name: (not name.startswith(OURS), name))
    grids = [Grid(
        "Files/s on one node", ("", *SIZES), [(name, *(spread([
            row["files"] / row["seconds"] for row in document["single"]
            if (row["system"], row["folder"]) == (name, size)]) for size in SIZES))
            for name in systems],
        f"Median of {document['rounds']} rounds, smallest to largest; all in memory.")]
    nodes = sorted({row["nodes"] for row in document["several"]})
    if nodes:
        grids.append(Grid(
            f"MB/s that nodes get together over links of {document['link']} Mbit/s",
            ("", *SIZES), [(f"{n} nodes, {kind}", *(spread([
                row["bytes"] / row["seconds"] / 1e6 for row in document["several"]
                if (row["nodes"], row["pack"], row["folder"]) == (n, kind, size)])
                for size in SIZES)) for n in nodes for kind in benchmark.PACKS]))
    return Section(STUDY.title, STUDY.description, grids)


def targets(document: dict[str, Any]) -> list[str]:
    """F1 to F6 of the design; those that this experiment does not measure are named."""
    single, most = document["single"], max((row["nodes"] for row in document["several"]), default=0)
    data = len(SIZES) * document["mib"] * MIB
    tars = [row["bytes"] / data for row in document["packs"] if row["pack"] == "plain"]
    rows = [("F1 bytes of tars over data, which io stage reads once", tars, 1.02, False)]
    rows += [(f"F3 {OURS} over {name}, {SMALL}", over(single, SMALL, "system", OURS, name), 2, True)
             for name in (SQUASHFUSE, PASSTHROUGH)]
    if most:
        rows += [(f"F5 of what links allow, {most} nodes, {size}", of_links(document, most, size),
                  0.76, True) for size in SIZES]
        rows += [(f"F6 zstd over plain, {most} nodes, {size}", several_over(document, most, size),
                  1.5, True) for size in SIZES]
    lines = []
    for name, values, target, is_least in rows:
        if values:
            is_met = (statistics.median(values) >= target) == is_least
            lines.append(f"{name}: {spread(values)}; target {target:g}: "
                         f"{'met' if is_met else 'not met'}")
    return [*lines, "F2 metadata requests, F4 a device of 500 MB/s: not measured here"]


STUDY = Study(
    name=FILE, text=__doc__,
    repeats=("Figure 3", "Figure 5", "Figure 11", "Chapter 6.3 of Zhang et al. 2018"),
    measurement=Benchmark(), compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
