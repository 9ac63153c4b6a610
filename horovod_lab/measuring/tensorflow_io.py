"""What the source on TensorFlow's input measured: each number with the place where it stands.

S. W. D. Chien et al., "Characterizing Deep-Learning I/O Workloads in TensorFlow", PDSW-DISCS 2018:
TensorFlow 1.10; a workstation of eight cores with a hard disk, an SSD and an Optane card, and a
cluster's node with Lustre. Its curves are pictures; these are the numbers of the text. It does not
say whether those of threads are of Figure 4, with preprocessing, or of Figure 5, without.
"""

from __future__ import annotations

from horovod_lab.measuring.dissertation import Reported

HDD, LUSTRE = "HDD", "Lustre"


def _threads(device: str, threads: int, times: float, given: str = "{}") -> Reported:
    return Reported(f"images/s on {device}, {threads} threads over 1", "VII; Figures 4 and 5",
                    times, times, ".3g", 1, given)


# By device and number of threads.
SPEEDUP = {
    HDD: {threads: _threads(HDD, threads, times)
          for threads, times in ((2, 1.65), (4, 1.95), (8, 2.3))},
    LUSTRE: {8: _threads(LUSTRE, 8, 7.8, "up to {}")},
}
# With one batch of prefetching, whatever device and number of threads.
WAITING = Reported("of the time steps wait for input with prefetch 1, %", "V-B; Figure 6", 0, 0,
                   ".1f", given="{} (complete overlap)")
