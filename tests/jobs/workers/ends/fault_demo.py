"""The demo in PyTorch, for comparison: there is no fault. Says where each rank was."""

import runpy
import socket
import sys
from pathlib import Path

import horovod.torch as hvd
from common import report

import horovod_opt

EXAMPLES = Path(__file__).parents[4] / "examples"

sys.argv = [sys.argv[0], *sys.argv[2:]]
runpy.run_path(str(EXAMPLES / "pytorch_digits.py"), run_name="__main__")
stats = horovod_opt.stats()
report(host=socket.gethostname(), nodes=hvd.cross_size(), bytes=stats.data_bytes,
       planned_iterations=stats.planned_iterations)
