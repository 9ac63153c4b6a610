"""The last rank leaves in the middle, in one of several ways; the others report what they got."""

import os
import signal
import sys
import time

import horovod.torch as hvd
import torch
from common import RANK, report

how = sys.argv[2]
hvd.init()
outcome = "no error"
try:
    for step in range(1000):
        if step == 5 and RANK == hvd.size() - 1:
            if how == "exit":
                sys.exit(3)
            if how == "raise":
                raise KeyError("a bug in the training script")
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(torch.ones(4), name="step")
        time.sleep(0.02)
except hvd.HorovodInternalError as error:
    outcome = f"HorovodInternalError: {error}"
    raise
finally:
    report(outcome=outcome)
