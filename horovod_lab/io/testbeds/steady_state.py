"""A job that takes batches epoch after epoch, after a first one that warms all caches."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from horovod_lab.io.data.records import Records
from horovod_lab.io.environment import ELSEWHERE
from horovod_lab.io.peers import Peer
from horovod_lab.measuring import launch

# Not for one of the peers to have more of the cores than another, or to ask the network.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1",
               "DISABLE_VERSION_CHECK": "1"}


def run(peer: Peer, ranks: int, folder: Path, records: Records, batch: int, seconds: float,
        python: str, timeout: float) -> dict[str, Any]:
    """What the observer found, of `ranks` processes that take batches for so many seconds.

    Raises:
        launch.JobFailed: a rank failed or took too long; nothing of the job is left running.
    """
    with tempfile.TemporaryDirectory(prefix="horovod-io-bench-") as rendezvous:
        common = ["--rendezvous", rendezvous, "--records", str(records.count),
                  "--ranks", str(ranks), "--parent", str(os.getpid())]
        program = [python, "-m", "horovod_lab.io.testbeds.steady_state_rank", "--peer", peer.name,
                   "--data", str(folder.absolute()), "--record-bytes", str(records.size),
                   "--batch", str(batch), *common]
        observer = [sys.executable, "-m", "horovod_lab.io.testbeds.observer",
                    "--seconds", str(seconds), *common]
        launch.execute([*([*program, "--rank", str(rank)] for rank in range(ranks)), observer],
                       environ(os.environ), timeout, ELSEWHERE)
        return json.loads((Path(rendezvous) / "result").read_text())


def environ(variables: Mapping[str, str]) -> dict[str, str]:
    """For ranks: what a launcher says of another job is not theirs."""
    return {**{name: value for name, value in variables.items()
               if not name.startswith(("OMPI_", "PMIX_", "HOROVOD_"))
               and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")},
            **ENVIRONMENT}
