"""AlexNet on JPEG files: what prefetching hides of the input, and what checkpoints cost.

The mini-application, trained on the CPU cores by TensorFlow, with Adam. It is scaled: AlexNet has
half of its channels and units, so a quarter of its weights, and images of 64 pixels, not 224; what
the last pooling gives is resized to what it is there. An epoch is 768 files of 12 kB, not 9,088.
The disk does 200 requests a second; images in memory stand for those on faster devices. A
checkpoint to the slow storage, of 40 MiB/s, takes about as long as 600 MB to the source's hard
disk; the fast one is 3.8 times faster, as is Optane (Table I). There a GPU trains and takes 1 to
2 s for a batch; here training, decoding and the storages' servers share the cores, so what they
take of these cannot be hidden. As root, and with TensorFlow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from study import ROOT, Study, Tool

from horovod_lab.io.suites.alexnet import results
from horovod_lab.io.suites.alexnet.results import BURST, DISK, FAST, MEMORY, PARTS, PREFETCH, SLOW
from horovod_lab.measuring.literature import (
    BATCHES,
    BURST_BUFFER,
    CHECKPOINT_BYTES,
    EVEN,
    HIGHER,
    LIKE_FAST,
    WAITING,
)
from horovod_lab.report.source import Beside


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    return [beside for document in documents for beside in _compare(document)
            if beside.here is not None]


def _compare(document: dict[str, Any]) -> Iterator[Beside]:
    threads, sizes = (document["settings"][name] for name in ("threads", "batch"))
    for part in (DISK, MEMORY):
        yield Beside(WAITING, results.input_time(
            document, "waiting", part=part, threads=threads[-1], prefetch=PREFETCH),
            f"{PARTS[part]}, {threads[-1]} threads")
    yield Beside(EVEN, results.unevenness(document),
                 f"disk and memory, {threads[0]} to {threads[-1]} threads")
    for prefetch, reported in BATCHES.items():
        yield Beside(reported, results.by_batch(document, prefetch),
                     f"batches of {sizes[-1]} and {sizes[0]}, disk")
    speeds = [results.read_speed(document, prefetch) for prefetch in (0, 1)]
    yield Beside(HIGHER, speeds[1] / speeds[0] if all(speeds) else None, "disk")
    for key, reported in BURST_BUFFER.items():
        yield Beside(reported, results.over(document, SLOW, BURST, key), "40 MiB/s, 152 MiB/s")
    yield Beside(LIKE_FAST, results.over(document, BURST, FAST, results.SECONDS),
                 "40 MiB/s, 152 MiB/s")
    saved = results.median(results.measured(document, part=SLOW), "variables_bytes")
    yield Beside(CHECKPOINT_BYTES, saved and saved / 1e6,
                 f"{document['settings']['width']:g} of the channels and units")


STUDY = Study(
    name="alexnet", text=__doc__,
    repeats=tuple(f"Figure {number}" for number in (6, 7, 8, 9)) + (
        "Figure 10 of Chien et al. 2018",),
    measurement=Tool(("io", "bench"), ("--suite", "alexnet", "--data", ROOT / "build" / "io-data")),
    compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
