"""What the sources measured: each number with the place where it stands.

The source, where nothing else is said, is S. Pumma, "Scalability Analysis and Optimization for
Large-Scale Deep Learning", Virginia Tech, 2019. Chapter 6: TensorFlow 1.14 and Horovod 0.16.3 on
Summit, a GPU and seven cores for each rank, up to 24,576 ranks; ResNet50 unless it says otherwise.
Chapters 3 to 5: LMDBIO on Bebop, 36 cores a node, GPFS; the micro-benchmark, which reads and does
not train.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Reported:
    """A number of the source, or a range from `low` to `high`.

    Shares are kept as such and shown in percent: `scale` is 100, and 1 for ratios and times.
    `form` is how the number is shown, `wording` how the source puts it.
    """

    label: str
    where: str
    low: float
    high: float
    form: str = ".0f"
    scale: float = 100
    wording: str = "{}"

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def show(self, value: float) -> str:
        """Any number of this kind, also ours."""
        return f"{self.scale * value:{self.form}}"

    def text(self) -> str:
        """As the source gives it."""
        ends = dict.fromkeys(map(self.show, self.bounds))
        return self.wording.format(" to ".join(ends))


EFFICIENCY = Reported("efficiency of off at the largest number of ranks, %", "Figure 6.5, p. 120",
                      0.303, 0.303, ".1f", wording="{} (24,576 GPUs)")

ALLREDUCE = Reported("allreduce in off, % of a step", "Figure 6.6, p. 121", 0.703, 0.703, ".1f",
                     wording="up to {}")
IDLE = Reported("idle, % of the allreduce in off", "Figure 6.7, p. 122; 6.2.3", 0.67, 1.0)
OVERHEAD = {
    "off": Reported("background thread's overhead in off, % of a step", "Figure 6.17, p. 136",
                    0.46, 0.46, wording="about {}"),
    "topo": Reported("background thread's overhead in topo, % of a step", "Figure 6.17, p. 136",
                     0.034, 0.034, ".1f"),
}

BACKGROUND_CPU = {
    "off": Reported("background thread in off, % of a core", "Figure 6.10, p. 124", 0.60, 0.90),
    "topo": Reported("background thread in topo, % of a core", "Figure 6.18, p. 137", 0.06, 0.06,
                     wording="about {}"),
}
SWITCHES_BY_INPUT = Reported("involuntary switches, real over synthetic input, off", "6.2.5",
                             8.5, 8.5, ".2g", 1)
SWITCHES_BY_MODE = Reported("involuntary switches, off over topo", "6.4.1", 3, 25, ".2g", 1)


def _gain(mode: str, gain: float) -> Reported:
    return Reported(f"largest gain of {mode} over off, %", "Figure 6.16, p. 135", gain, gain,
                    wording="up to {}")


GAIN = {mode: _gain(mode, gain) for mode, gain in (
    ("gs", 0.10), ("nbcs", 0.16), ("scp", 0.18), ("topo", 0.21), ("topo+scp", 0.23))}
GS_INTERVAL = Reported("cycles between agreements with which gs is fastest", "6.3.1", 1, 1, scale=1)
STRONG_GAIN = Reported("largest gain over off, strong scaling, %", "Figure 6.19, p. 138", 0.19,
                       0.19, wording="up to {}")


class Traversal(NamedTuple):
    """A row of Table 6.1; `percent`: of a complete training on ImageNet with 12,288 GPUs."""

    nodes: int
    edges: int
    ms: int
    percent: float


TABLE_6_1 = {
    "ResNet18": Traversal(1714, 2565, 32, 0.18), "ResNet34": Traversal(2866, 4325, 86, 0.37),
    "ResNet50": Traversal(3988, 6042, 159, 0.04), "ResNet101": Traversal(7558, 11499, 594, 1.49),
    "ResNet152": Traversal(11128, 16956, 1274, 2.33), "AlexNet": Traversal(655, 893, 6, 0.02),
    "GoogLeNet": Traversal(3499, 4970, 182, 0.89),
    "Inception-v3": Traversal(6146, 9211, 382, 1.12), "VGG16": Traversal(1091, 1479, 17, 0.03),
}
TRAVERSAL_MS = {name: Reported(f"traversal of the graph of {name}, ms", "Table 6.1, p. 139",
                               row.ms, row.ms, scale=1) for name, row in TABLE_6_1.items()}
TRAVERSAL_PERCENT = {
    name: Reported(f"planning of {name}, % of its training", "Table 6.1, p. 139",
                   row.percent / 100, row.percent / 100, ".2g") for name, row in TABLE_6_1.items()}
IMAGENET_IMAGES = 1_281_167  # of the training set of ILSVRC 2012

# Of a step: graph scheduling and input pipeline are active, transfers have not begun (6.4.2).
CIS_WINDOW = {"ResNet18": 0.46, "ResNet34": 0.55, "ResNet50": 0.48, "ResNet101": 0.30,
              "ResNet152": 0.23, "GoogLeNet": 0.56, "Inception-v3": 0.42, "VGG16": 0.32}
CIS_WINDOW_SHARE = {name: Reported(f"CIS window of {name}, % of a step", "6.4.2", share, share)
                    for name, share in CIS_WINDOW.items()}


def _network(name: str, low: float, high: float, wording: str = "{}") -> Reported:
    return Reported(f"gain of topo over off, {name}, %", "Figure 6.20, p. 140; 6.4.2", low, high,
                    wording=wording)


NETWORK_GAIN = {
    "ResNet50": GAIN["topo"],
    "GoogLeNet": _network("GoogLeNet", 0.25, 0.35, "{} (mean to largest)"),
    "Inception-v3": _network("Inception-v3", 0.10, 0.18), "VGG16": _network("VGG16", 0.02, 0.06),
    "AlexNet": _network("AlexNet", -0.06, -0.06, wording="about {}"),
}
# The source gives one range for the five ResNets together.
RESNETS_GAIN = {name: _network(name, 0.05, 0.21, "{} (the ResNets)")
                for name in ("ResNet18", "ResNet34", "ResNet101", "ResNet152")}


def _ladder(label: str, where: str, times: float, wording: str) -> Reported:
    return Reported(f"samples/s of {label} over LMDB", where, times, times, ".3g", 1, wording)


# By strategy. LMM is slower than LMDB on more cores than given.
LADDER = {
    "lmm": _ladder("LMM", "Figure 3.6, p. 48", 43.77, "up to {} (1,152 cores)"),
    "dm": _ladder("DM", "Figure 4.6, p. 68", 6.7, "{} (4,608 cores)"),
    "dio": _ladder("DIO", "Figure 5.5, p. 93", 17.18, "{} (4,608 cores)"),
    "prov": _ladder("PROV", "Figure 5.7, p. 95", 19.44, "{} (4,608 cores)"),
    "coal": _ladder("COAL", "Figure 5.8, p. 97", 21.86, "{} (4,608 cores)"),
    "stag": _ladder("STAG", "Figure 5.9, p. 98", 81.05, "{} (4,608 cores)"),
}
LADDER_SWITCHES = Reported("context switches, LMDB over LMM", "Figure 3.8, p. 50", 83, 83, ".2g", 1,
                           "up to more than {}")


# TensorFlow's input: S. W. D. Chien et al., "Characterizing Deep-Learning I/O Workloads in
# TensorFlow", PDSW-DISCS 2018: TensorFlow 1.10; a workstation of eight cores with a hard disk, an
# SSD and an Optane card, and a cluster's node with Lustre. Its curves are pictures; these are the
# numbers of the text. It does not say whether those of threads are of Figure 4, with preprocessing,
# or of Figure 5, without.

HDD, LUSTRE = "HDD", "Lustre"


def _threads(device: str, threads: int, times: float, wording: str = "{}") -> Reported:
    return Reported(f"images/s on {device}, {threads} threads over 1", "VII; Figures 4 and 5",
                    times, times, ".3g", 1, wording)


# By device and number of threads.
SPEEDUP = {
    HDD: {threads: _threads(HDD, threads, times)
          for threads, times in ((2, 1.65), (4, 1.95), (8, 2.3))},
    LUSTRE: {8: _threads(LUSTRE, 8, 7.8, "up to {}")},
}
# With one batch of prefetching, whatever device and number of threads.
WAITING = Reported("of the time steps wait for input with prefetch 1, %", "V-B; Figure 6", 0, 0,
                   ".1f", wording="{} (complete overlap)")
# Of these curves the text says in which direction they go.
EVEN = Reported("time of the slowest over the fastest with prefetch 1, x", "V-B; Figure 6", 1, 1,
                ".3g", 1, "{} (the same)")
BATCHES = {prefetch: Reported(
    f"time with the largest batch over the smallest, prefetch {prefetch}, x", "V-B; Figure 7", 1, 1,
    ".3g", 1, "less than {}") for prefetch in (0, 1)}
HIGHER = Reported("MB/s read from HDD, prefetch 1 over 0, x", "V-B; Figure 8", 1, 1, ".3g", 1,
                  "more than {}")
# VII does not say of which times the burst buffer's improvement is.
BURST_BUFFER = {
    "lost_seconds": Reported("time lost to checkpoints, slow over burst buffer, x",
                             "VII; Figure 9", 2.6, 2.6, ".3g", 1),
    "seconds": Reported("time of the whole training, slow over burst buffer, x",
                        "VII; Figure 9", 2.6, 2.6, ".3g", 1)}
LIKE_FAST = Reported("time of the whole training, burst buffer over fast, x", "V-C; Figure 9", 1, 1,
                     ".3g", 1, "{} (little difference)")
CHECKPOINT_BYTES = Reported("MB of a checkpoint", "VII", 600, 600, ".0f", 1,
                            "roughly {}")


# An order out of memory: Y. Zhu et al., "Entropy-Aware I/O Pipelining for Large-Scale Deep Learning
# on HPC Systems", MASCOTS 2018: its validation accuracy is that of a full shuffle, as a picture
# says; by the part of the data that is in memory at a time.
WINDOWED_ACCURACY = {part: Reported("accuracy lost to a full shuffle, points", "Figure 8", 0, 0,
                                    ".1f", wording=f"{{}} ({part} of the data at a time)")
                     for part in (1, 0.5, 0.25)}
# Of an order in which so many neighbours stay together.
GROUP_RL = {size: Reported(f"relative entropy of groups of {size}, %", "Figure 7", rl, rl, ".0f")
            for size, rl in ((4, 0.73), (16, 0.49), (256, 0.16))}

# Zhang et al., "FanStore: Enabling Efficient and Scalable I/O for Distributed Deep Learning", 2018:
# nodes with solid-state disks, InfiniBand; LZSSE8.
FANSTORE = {
    "folder": Reported("files/s over those of the file system below, %", "Figure 3; 6.4.1", 0.71,
                       0.99),
    "fuse": Reported("files/s over those by FUSE, x", "Figure 3; 6.4.1", 2.9, 4.4, ".2g", 1),
    "links": Reported("bandwidth over what more nodes allow, %", "Figure 5; 6.5.1", 0.763, 0.831,
                      wording="{} (16 nodes, by 4)"),
    "zstd": Reported("files/s with compression over those without, one node, %",
                     "Figure 11; 6.6", 0.5, 1, wording="{} (small to large files)"),
    "zstd, nodes": Reported("files/s with compression over those without, nodes, x",
                            "Figure 11; 6.6", 1, 1, ".2g", 1, "more than {}"),
    "pack": Reported("time to pack with compression over that without, x", "6.3", 4.3, 4.3, ".2g",
                     1),
}
