"""The settings of the process that starts a job, for the workers that Ray and Spark start.

`horovodrun` carries its environment to every rank. Workers of Ray and Spark are children of
daemons, on any host, that may have been started long before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from horovod_opt.settings import PREFIX


def environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """This process' HOROVOD_OPT_*, and `extra` that the user has named for the workers, which wins.

    A misspelt name is taken along: hvd.init() refuses it on every worker, as under horovodrun.
    """
    settings = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    return {**settings, **(extra or {})}
