"""The picture of an order: when each node needs which chunk, and how much memory that takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from graph_analysis.palette import COLOURS
from horovod_opt.io.node_reads import NodeReads
from horovod_opt.io.order.order import Order

MIB = 1 << 20


def draw(order: Order, epoch: int, nodes: Sequence[NodeReads], path: Path) -> None:
    """Writes the picture in the format that the file's name ends with. Raises OSError, and
    ValueError for a format that cannot be written."""
    figure = Figure(figsize=(10, 7), layout="constrained")
    chunks, memory = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    epoch_order = order.epoch(epoch)
    for number, node in enumerate(nodes):
        colour = COLOURS[number % len(COLOURS)]
        ordinals = epoch_order.chunks.ordinal_of(node.loads.chunk)
        begin, end = node.loads.first, node.loads.last + 1
        lines = np.stack([np.stack([begin, ordinals], 1), np.stack([end, ordinals], 1)], 1)
        chunks.add_collection(LineCollection(lines, colors=colour, linewidths=1,
                                             rasterized=len(lines) > 5000))
        memory.step(np.arange(len(node.live)), node.live / MIB, where="post", color=colour,
                    label=f"node {number}")
    chunks.set(xlim=(0, max((len(node.live) for node in nodes), default=1)),
               ylim=(0, order.chunks), ylabel="chunk, in the epoch's order",
               title=f"Epoch {epoch}: from when to when each node needs which chunk")
    for border in epoch_order.shards.first_chunk[1:-1]:
        chunks.axhline(border, color="0.9", linewidth=0.5, zorder=0)
    memory.set(xlabel="step", ylabel="needed at once (MiB)", ylim=(0, None))
    if len(nodes) <= len(COLOURS):
        memory.legend(loc="upper right", ncols=4, fontsize="small")
    figure.savefig(path)
