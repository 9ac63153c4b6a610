"""Starts Horovod with settings that cannot be used; reports what hvd.init() raised.

The second argument lists attempts, each of them one dict of environment variables per rank.
Horovod does not start again after a failed start, so every attempt is a process of its own,
forked after the slow imports. MPI cannot be forked: with MPI there is one attempt a job.
"""

import json
import os
import sys
from pathlib import Path

import horovod.torch as hvd
from common import FOLDER, RANK, report

from horovod_opt import SettingsError


def attempt(number: int, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    try:
        hvd.init()
        outcome = "no error"
    except SettingsError as error:
        outcome = f"SettingsError: {error}"
    Path(FOLDER / f"outcome-{number}-{RANK}").write_text(outcome)


attempts = json.loads(sys.argv[2])
for number, by_rank in enumerate(attempts):
    if len(attempts) == 1:
        attempt(number, by_rank[RANK])
    else:
        child = os.fork()
        if child == 0:
            attempt(number, by_rank[RANK])
            os._exit(0)
        os.waitpid(child, 0)
outcomes = [FOLDER / f"outcome-{number}-{RANK}" for number in range(len(attempts))]
report(outcomes=[path.read_text() if path.exists() else "crashed" for path in outcomes])
