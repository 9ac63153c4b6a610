"""Ranks of torch.distributed, for the pipelines that ask it who they are."""

from __future__ import annotations

import os

from horovod_lab.io.peers.stream import Place
from horovod_lab.io.testbeds.nodes import INTERFACE


def meet(place: Place) -> None:
    """Over a file, so that no port has to be free."""
    if place.ranks == 1:
        return
    from torch import distributed

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if place.nodes == 1 else INTERFACE)
    distributed.init_process_group("gloo", init_method=f"file://{place.meeting / 'torch'}",
                                   rank=place.rank, world_size=place.ranks)
