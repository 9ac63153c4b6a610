"""PyTorch's own tests of torch.distributed, as its wheel has them, with one backend:
FILE [TEST...].

What BACKEND names, in WORLD_SIZE ranks that are forked from this process. Writes a line of JSON to
FILE for each test: its name, outcome and the last line of its error.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest

os.environ["TEMP_DIR"] = tempfile.mkdtemp()
os.environ.setdefault("WORLD_SIZE", "3")
os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "120")
import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import DistTestCases

if os.environ["BACKEND"] == "hvdopt":
    for feature in ("ddp", "subgroup", "plugin"):
        DistTestCases.backend_feature[feature].add("hvdopt")

from torch.testing._internal.distributed import distributed_test
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

find_event = distributed_test.get_profiling_event


def find_event_of_whoever(name: str, *arguments, **named):
    """In gloo's place the profiler says who performs a call."""
    return (find_event(name.replace("gloo:", "hvdopt:"), *arguments, **named)
            or find_event(name, *arguments, **named))


if os.environ.get("HOROVOD_OPT_AS_GLOO") == "1":
    distributed_test.get_profiling_event = find_event_of_whoever


class WheelSuite(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


class Outcomes(unittest.TestResult):
    def __init__(self, file):
        super().__init__()
        self.file = file

    def tell(self, test, outcome: str, why: str = "") -> None:
        line = {"test": test.id().rpartition(".")[2], "outcome": outcome, "why": why.strip()}
        print(json.dumps(line), file=self.file, flush=True)

    def addSuccess(self, test):
        self.tell(test, "passed")

    def addSkip(self, test, reason):
        self.tell(test, "skipped", reason)

    def _fail(self, test, error):
        lines = [line for line in str(error[1]).splitlines() if line.strip()]
        self.tell(test, "failed", (lines or [repr(error[1])])[-1][:300])

    addFailure = addError = _fail

    def addExpectedFailure(self, test, error):
        self.tell(test, "passed")


def main() -> None:
    assert dist.is_available()
    names = sys.argv[2:] or unittest.defaultTestLoader.getTestCaseNames(WheelSuite)
    with open(sys.argv[1], "a") as file:
        unittest.TestSuite(map(WheelSuite, names)).run(Outcomes(file))


if __name__ == "__main__":
    main()
