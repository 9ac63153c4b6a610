"""The stands that `horovod-opt io bench` can make."""

from __future__ import annotations

from horovod_lab.io.testbeds.disk import Disk
from horovod_lab.io.testbeds.parallel import Parallel
from horovod_lab.io.testbeds.stand import Stand
from horovod_lab.io.testbeds.warm import Warm

STANDS: dict[str, type[Stand]] = {one.name: one for one in (Warm, Disk, Parallel)}
