"""torch.distributed's backend `hvdopt`: `torch.distributed.init_process_group("hvdopt")`.

Importing this registers the name; PyTorch does that itself from 2.5 on, by the entry point
`torch.backends`. What is compiled is loaded when the first group is made. Below mpirun, srun and
horovodrun this tells torch.distributed the numbers of the rank.
"""

from __future__ import annotations

import os
import sys
from typing import Any

NAME = "hvdopt"
AS_GLOO = "HOROVOD_OPT_AS_GLOO"


def register() -> None:
    """Registers the backend with torch.distributed, once. Raises nothing: an error here would end
    `import torch` in the whole environment."""
    try:
        import torch.distributed as dist

        from horovod_opt.c10d.rank_variables import fill_in

        fill_in(os.environ)
        if dist.is_available() and NAME not in dist.Backend.backend_list:
            dist.Backend.register_backend(NAME, _make, extended_api=True, devices=["cpu"])
            if os.environ.get(AS_GLOO, "").strip():
                from horovod_opt.c10d.as_gloo import replace_gloo

                replace_gloo()
    except Exception as problem:  # init_process_group says that there is no such backend
        if os.environ.get(AS_GLOO, "").strip():
            print(f"horovod-opt: {AS_GLOO} has no effect: {problem!r}", file=sys.stderr, flush=True)


def _make(options: Any, _of_backend: Any) -> Any:
    from horovod_opt.c10d.group import make

    return make(options)


register()
