"""What horovod_opt.io is meant to reach with small records."""

from __future__ import annotations

from dataclasses import dataclass

from horovod_lab.measuring.verdict import Bound

SPEED, MEMORY = "samples_per_second", "pss_bytes"
HIO = "hio-tfrecord"
SHUFFLED = 90  # %, rounded


@dataclass(frozen=True)
class Target(Bound):
    """`series`, measured in `of`, as a multiple of `over` in pairs of a round; exactly one of
    `least` and `most` is given. `ranks`: at which number, None for any; `testbed`: on which, and of
    how many `nodes`. `needs_shuffle`: only if the relative entropy of both is SHUFFLED or more."""

    of: str
    over: str
    least: float | None = None
    most: float | None = None
    series: str = HIO
    ranks: int | None = None
    testbed: str = "warm"
    nodes: int = 1
    needs_shuffle: bool = False

    @property
    def unit(self) -> str:
        return f"x {self.over}"

    @property
    def quantity(self) -> str:
        return {SPEED: "samples/s", MEMORY: "PSS"}[self.of]


TARGETS = (
    *(Target(SPEED, over, least, series=series)
      for series in (HIO, "hio-lmdb")
      for over, least in (("py-lmdb", 0.9), ("py-lmdb-in-order", 0.9), ("webdataset", 1.0),
                          ("grain", 1.0))),
    *(Target(MEMORY, over, most=0.35, ranks=8) for over in ("torch-2", "mosaicml")),
    *(Target(SPEED, over, least, series=series, testbed="disk", needs_shuffle=True)
      for series in (HIO, "hio-lmdb")
      for over, least in (("py-lmdb", 10.0), ("torch-files", 10.0), ("mosaicml", 0.95),
                          ("webdataset", 0.95))),
    *(Target(SPEED, over, least, series=series, ranks=8, testbed="parallel", nodes=4)
      for series in (HIO, "hio-lmdb")
      for over, least in (("py-lmdb-strided", 2.0), ("tf-data", 1.0))),
)
