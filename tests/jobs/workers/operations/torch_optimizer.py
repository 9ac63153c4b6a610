"""Programs with an optimizer of PyTorch: with hvd.DistributedOptimizer and without.

Two ranks with a batch each must do what one process does with both batches. A program is written
once. It gets a Run, which wraps the optimizer or does not, and whose loss is that of this rank's
batch or of all; what it returns must be the same, up to rounding in 64 bits.
"""

from __future__ import annotations

import faulthandler
import warnings
from collections.abc import Iterator

import horovod.torch as hvd
import torch
import torch_elastic_states
import torch_optimizer_layouts
import torch_optimizer_methods
import torch_optimizer_schedulers
import torch_optimizer_state
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics
from torch_optimizer_errors import ERRORS as ERRORS_OF_METHODS
from torch_optimizer_errors import adasum_methods, error_of, last_rank, one_process_set
from torch_optimizer_run import Program, Run, same

import horovod_opt

PROGRAMS = {**torch_optimizer_methods.PROGRAMS, **torch_optimizer_schedulers.PROGRAMS,
            **torch_optimizer_layouts.PROGRAMS}
ERRORS = ERRORS_OF_METHODS + torch_optimizer_layouts.ERRORS


def compare(name: str, program: Program) -> str:
    """Empty if the two runs give the same; otherwise what they gave, or the error."""
    results = []
    print(f"rank {RANK}: {name}", flush=True)
    for distributed in True, False:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.append(program(Run(distributed)))
        except Exception as error:
            results.append(f"{type(error).__name__}: {error}")
        hvd.barrier()
    are_good = not any(isinstance(result, str) for result in results) and same(*results)
    return "" if are_good else f"{results[0]} with Horovod, {results[1]} without"


def observe() -> dict:
    return {
        "programs": {name: compare(name, program) for name, program in PROGRAMS.items()},
        "state": torch_optimizer_state.observe(),
        "elastic": torch_elastic_states.observe(),
        "errors": {program.__name__: error_of(program) for program in ERRORS},
        "adasum": adasum_methods(),
        "process set": one_process_set(),
        "planned_iterations": horovod_opt.stats().planned_iterations,
    }


def runs() -> Iterator[tuple[str, dict]]:
    for mode in "off", "topo":
        with running(hvd, mode, [last_rank]):
            yield mode, observe()
            hvd.barrier()


faulthandler.dump_traceback_later(120)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
report(**dict(runs()))
