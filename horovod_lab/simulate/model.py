"""The simulation of one mode at one number of ranks. docs/lab/simulation-model.md has the rules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from horovod_lab.simulate import costs
from horovod_lab.simulate.modes.gs import GlobalSleep
from horovod_lab.simulate.modes.nbcs import Naps
from horovod_lab.simulate.modes.off import Off
from horovod_lab.simulate.modes.scp import PartitionedCores
from horovod_lab.simulate.modes.topo import Topo
from horovod_lab.simulate.modes.topo_internode import InternodeTopo
from horovod_lab.simulate.parameters import ParameterError, Parameters
from horovod_lab.simulate.processor_sharing import Cores
from horovod_lab.simulate.training import Result, Training

MODES = ("off", "gs", "nbcs", "scp", "topo", "topo+scp", "gs+nbcs", "gs+scp", "nbcs+scp")
FREED_AT_ONCE = 16 * 2**20  # bytes


def simulate(p: Parameters, mode: str, ranks: int, steps: int, seed: int, trace: bool = False,
             report: Callable[[], None] = lambda: None) -> Result:
    """`steps` steps after a few that are not counted; `report` is called after each.

    Draws of the computation depend on the seed and the number of ranks alone, so that all modes
    compute under the same luck. With `trace` the last step is in `Result.trace` as (rank, what,
    from, to).

    Raises:
        ParameterError: the mode is unknown or impossible, or the ranks do not fill the nodes.
    """
    check(p, mode, ranks)
    # glibc keeps freed memory once so much was freed at a time, instead of getting each array's
    # pages from the kernel anew: a third of the time at 24,576 ranks. See mallopt(3).
    np.empty(FREED_AT_ONCE, np.uint8)
    return build(p, mode, ranks, steps, seed, trace, report).run()


def build(p: Parameters, mode: str, ranks: int, steps: int, seed: int, trace: bool = False,
          report: Callable[[], None] = lambda: None) -> Training:
    """The training that `simulate` runs: what happens in a cycle, how ranks wait, and which cores
    they have, as the parts of the mode say."""
    parts = set(mode.split("+"))
    topo = InternodeTopo if costs.is_internode(p, ranks) else Topo
    kind = topo if "topo" in parts else GlobalSleep if "gs" in parts else Off
    naps = Naps(p) if parts & {"nbcs", "topo"} else None
    cores = (PartitionedCores if "scp" in parts else Cores)(
        p, ranks, yields=bool(p.yields) and mode != "off" and naps is None,
        waiting_share=naps.share if naps else 1.0)
    return kind(p, ranks, cores, naps, steps, seed, trace, report)


def check(p: Parameters, mode: str, ranks: int) -> None:
    """Raises ParameterError if the mode is unknown, or the ranks do not fill their nodes."""
    if mode not in MODES:
        raise ParameterError(f"{mode!r} is no mode that is simulated; there are {', '.join(MODES)}")
    if ranks > p.ranks_per_domain and ranks % p.ranks_per_domain:
        raise ParameterError(f"{ranks} ranks do not fill nodes of {p.ranks_per_domain} that share "
                             "their cores; remedy: a multiple, or --set ranks_per_node=...")
