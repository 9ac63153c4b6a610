"""Runs scripts one after the other in the ranks of one job, each as if it had a job of its own."""

import contextlib
import io
import os
import runpy
import sys

from common import report

# Scripts need what start/sitecustomize.py has hidden, and so do processes that they start.
for hidden in [name for name, module in sys.modules.items() if module is None]:
    del sys.modules[hidden]
os.environ.pop("PYTHONPATH", None)

lines = {}
for script in sys.argv[2:]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path(script, run_name="__main__")
    lines[script] = output.getvalue().splitlines()
report(lines=lines)
