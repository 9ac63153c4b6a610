"""What several tests assert of a job that has ended: its checkpoint, the CPUs of its threads."""

from __future__ import annotations

import hashlib

import numpy as np
from jobs import Job
from workers.shared import special_values

BEFORE_FAULT = 12  # step of the last save before the fault, see workers/ends/fault_common.py


def assert_intact(job: Job, name: str, step: int | None = BEFORE_FAULT) -> None:
    """The checkpoint is whole, and the last that rank 0 wrote. `step`: which one it must be; None
    if the ranks went on after the fault, for a while."""
    import torch

    saved = torch.load(job.folder / f"{name}.pt", weights_only=True)
    weights = b"".join(part.numpy().tobytes() for part in saved["weights"].values())
    saves = (job.folder / f"{name}.saves").read_text().splitlines()
    # Rank 0 may have ended between the line and the file.
    assert f"{saved['step']} {hashlib.sha256(weights).hexdigest()}" in saves[-2:]
    if step is None:
        assert saved["step"] >= BEFORE_FAULT
    else:
        assert saved["step"] == step


def assert_apart(run: dict) -> None:
    """The background thread has cores of its own; `run`: of a mode, as the worker cores saw it."""
    background, *planned = run["during"]["background"]
    all_cpus = set(run["before"]["rest"][0])
    assert background
    assert set(background) < all_cpus
    assert all(cpus == background for cpus in planned)
    for cpus in run["during"]["rest"]:
        assert set(cpus) == all_cpus - set(background)


def assert_special_values(name: str, bits: list[np.ndarray], planned: bool) -> None:
    """The ranks' results of workers/shared/special_values.py are right: all the same where they are
    planned, else where no NaN comes in and no order of zeros counts."""
    dtype = name.split()[-1]
    known, nans, right = special_values.expected(name, len(bits))
    numbers = known & ~nans
    if planned:
        for others in bits[1:]:
            np.testing.assert_array_equal(others, bits[0])
        np.testing.assert_array_equal(special_values.is_nan(bits[0], dtype)[known], nans[known])
        np.testing.assert_array_equal(bits[0][numbers], right[numbers])
    elif name.split()[0] not in ("Min", "Max"):
        for own in bits:
            np.testing.assert_array_equal(own[numbers], right[numbers])
