"""The stands that `horovod-opt io bench` can make."""

from __future__ import annotations

from horovod_opt.io.bench.stands.disk import Disk
from horovod_opt.io.bench.stands.parallel import Parallel
from horovod_opt.io.bench.stands.stand import Stand
from horovod_opt.io.bench.stands.warm import Warm

STANDS: dict[str, type[Stand]] = {one.name: one for one in (Warm, Disk, Parallel)}
