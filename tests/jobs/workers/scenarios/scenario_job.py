"""Runs scenarios in mode off and in kinds of mode topo; reports what was seen and what differs.

Argument: as JSON, by kind, the rank that is late (-1: none), modules, or single scenarios as
module.scenario, and settings.
"""

import faulthandler
import importlib
import json
import sys

from common import report, start_mpi
from horovod.tensorflow.mpi_ops import _basics
from scenario_runs import Kind, compared_with_off


def scenarios(chosen: str) -> dict:
    module, _, name = chosen.partition(".")
    every = {scenario.__name__: scenario for scenario in importlib.import_module(module).SCENARIOS}
    return {name: every[name]} if name else every


faulthandler.dump_traceback_later(140)  # where it hangs, before it is killed for that
start_mpi(_basics.MPI_LIB_CTYPES)
kinds = {}
for name, (late_rank, choices, settings) in json.loads(sys.argv[2]).items():
    chosen = {}
    for choice in choices:
        chosen.update(scenarios(choice))
    kinds[name] = Kind(chosen, settings, late_rank)
report(**compared_with_off(kinds))
