"""How much nodes read, by their number and by pipeline: for experiments/deepio.py."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from horovod_lab.io import environment
from horovod_lab.io.data import data_folder
from horovod_lab.io.data.records import Records
from horovod_lab.io.peers import KEEPING, PEERS, Peer
from horovod_lab.io.storage.timing_model import Speed
from horovod_lab.io.testbeds import whole_epochs
from horovod_lab.io.testbeds.parallel import SPEED, ParallelFileSystem

NODES = (1, 2, 4)
PIPELINES = (KEEPING, *(PEERS[name] for name in ("hio-tfrecord", "tf-data", "torch", "mosaicml")))
RECORDS = Records(4096, 32 << 10)
BATCH, EPOCHS, SHARE = 16, 3, 0.5
TIMEOUT = 300  # s


def measure(nodes: Sequence[int] = NODES, pipelines: Sequence[Peer] = PIPELINES,
            records: Records = RECORDS) -> Iterator[dict[str, Any]]:
    """A rank on each node, each of which may hold SHARE of the data, on testbed N. What
    whole_epochs.run() has found, with `pipeline`, `nodes` and `load` (of the machine, before); or
    `absence`, why there is none.

    Raises NoTestbed where this machine has none, launch.JobFailed.
    """
    ParallelFileSystem.check(max(nodes))
    found = environment.find()
    with tempfile.TemporaryDirectory(prefix="horovod-io-bench-") as top:
        for peer in pipelines:
            absence = found.explain_absence(peer.needs)
            if absence:
                yield {"pipeline": peer.label, "absence": absence}
                continue
            folder = data_folder.folder_of(Path(top), peer.format, records)
            if not folder.exists():
                data_folder.write(peer.format, folder, records)
            for number in nodes:
                load = os.getloadavg()[0]
                with ParallelFileSystem(folder, number, SHARE) as testbed:
                    yield {"pipeline": peer.label, "nodes": number, "load": load,
                           **whole_epochs.run(testbed, peer, records, BATCH, EPOCHS, found.python,
                                              TIMEOUT)}


def storage_seconds(epoch: dict[str, float], speed: Speed = SPEED) -> float:
    """That the storage was at work in an epoch: its bytes, and going back."""
    return epoch["bytes"] / speed.bandwidth + epoch["inversions"] * speed.going_back
