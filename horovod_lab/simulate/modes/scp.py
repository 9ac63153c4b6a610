"""Mode scp, static core partitioning (6.3.3): the background thread of each rank has one of the
rank's cores to itself, and all other threads have the rest."""

from __future__ import annotations

import numpy as np

from horovod_lab.simulate.parameters import ParameterError, Parameters
from horovod_lab.simulate.processor_sharing import Cores

CORES_OF_RANK = 2  # at least: the background thread's and one for all others


def has_cores(p: Parameters) -> bool:
    """Whether every rank has the two cores that scp needs."""
    return p.cores >= CORES_OF_RANK * p.ranks_per_domain


class PartitionedCores(Cores):
    """The cores of a domain but one for each rank; the input pipeline's pool is as much smaller. A
    background thread takes none of these cores, and never waits for one.

    Raises:
        ParameterError: a rank would be left without a core.
    """

    taken_by_spinner = 0

    def cores_to_share(self) -> float:
        ranks = self.shape[1]
        cores = self.parameters.cores - ranks
        if cores < ranks:
            raise ParameterError(f"scp needs two cores for each rank: there are "
                                 f"{self.parameters.cores:g} for {ranks}")
        return cores

    def no_core_for_background(self, in_window: int) -> float:
        return 0.0

    def sharing(self, spinners: np.ndarray | float, real_work: bool = False
                ) -> tuple[np.ndarray, np.ndarray]:
        share, _ = super().sharing(0.0, real_work)
        ranks = self.shape[1]
        return share, np.minimum(1, ranks / np.maximum(spinners, ranks)) * np.ones_like(share)
