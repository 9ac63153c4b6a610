"""Runs scenarios in both modes; reports what was seen and what differs.

Arguments: the rank that is late (-1: none), then modules, or single scenarios as module.scenario.
"""

import faulthandler
import importlib
import sys

from common import report, start_mpi
from horovod.tensorflow.mpi_ops import _basics
from topo_common import be_late, in_both_modes


def scenarios(chosen: str) -> dict:
    module, _, one = chosen.partition(".")
    every = {scenario.__name__: scenario for scenario in importlib.import_module(module).SCENARIOS}
    return {one: every[one]} if one else every


faulthandler.dump_traceback_later(100)  # where it hangs, before it is killed for that
start_mpi(_basics.MPI_LIB_CTYPES)
late_rank, *choices = sys.argv[2:]
be_late(int(late_rank))
every: dict = {}
for choice in choices:
    every.update(scenarios(choice))
report(**in_both_modes(every))
