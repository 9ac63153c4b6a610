"""Whether a training of the input side had what it must: each sample as often as the data set says,
at its place, on all ranks of a group alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import input_model
import numpy as np

import horovod_opt.io as hio

if TYPE_CHECKING:
    from input_trials import InputTrial

Place = tuple[int, int]  # epoch and position
MANY = 100  # samples whose order is no accident


class Share(NamedTuple):
    """What the ranks of a group, so many, had of the step from position `start` to `end`."""

    epoch: int
    start: int
    end: int
    numbers: list[int]
    ranks: int


def check_shares(groups: Sequence[Sequence[int]], reports: Sequence[Sequence[dict]], begin: Place,
                 end: Place) -> tuple[list[Share], list[str]]:
    """What each group of a job took between two states; later steps are not in the state and come
    again. And what is wrong: ranks of a group that had different samples, groups that had not each
    a share of each step, and shares that differ by more than a sample."""
    problems, sizes, shares = [], defaultdict(list), []
    for group in groups:
        of_ranks = [[line for line in reports[rank]
                     if begin <= (line["epoch"], line["start"]) < end] for rank in group]
        if any(lines != of_ranks[0] for lines in of_ranks):
            problems.append(f"the ranks {group} of a group had different samples")
        for line in of_ranks[0]:
            shares.append(Share(**line, ranks=len(group)))
            sizes[line["epoch"], line["start"], line["end"]].append(len(line["numbers"]))
    problems += [f"shares of {counts} samples at epoch {step[0]}, positions {step[1]} to {step[2]},"
                 f" of {len(groups)}" for step, counts in sizes.items()
                 if len(counts) != len(groups) or max(counts) - min(counts) > 1]
    return shares, problems


def check_training(trial: InputTrial, shares: Sequence[Share], end: Place, folder: Path
                   ) -> list[str]:
    """What was lost or came too often, and steps with other samples than the order has for them."""
    problems = []
    if end != (trial.epochs, 0):
        problems.append(f"the last state is at {end}, not at the end of epoch {trial.epochs - 1}")
    epochs = []
    for epoch in range(trial.epochs):
        steps: dict[Place, list[int]] = {}
        for share in shares:
            if share.epoch == epoch:
                steps.setdefault((share.start, share.end), []).extend(share.numbers)
        had = Counter(number for step in steps.values() for number in step)
        problems += [f"epoch {epoch}: {problem}" for problem in trial.data.wrong_counts(had)]
        epochs.append((steps, had))
    if problems:
        return problems
    rows = np.array(input_model.rows(epochs[0][1]))
    if any(had != epochs[0][1] for _, had in epochs):
        problems.append("epochs have other samples than each other")
    orders = _orders(trial, folder, len(rows))
    for epoch, ((steps, _), order) in enumerate(zip(epochs, orders)):
        problems += [f"epoch {epoch}, positions {start} to {end}: other samples"
                     for (start, end), step in steps.items()
                     if sorted(step) != sorted(rows[order[start:end]].tolist())]
    if trial.options["shuffle"] and len(rows) >= MANY and any(
            (orders[0] == other).all() for other in (orders[1], np.arange(len(rows)))):
        problems.append("the first epoch is not shuffled, or as the second")
    return problems


def _orders(trial: InputTrial, folder: Path, samples: int) -> list[np.ndarray]:
    """By epoch, the number of the sample at each position: the data's own order, or what
    horovod_opt says to whoever reads alone."""
    positions = np.arange(samples)
    if not trial.options["shuffle"]:
        return [positions] * trial.epochs
    with hio.open(**trial.data.open_options(folder), **trial.options, alone=True) as data:
        assert len(data) == samples
        return [data.order.at(epoch, positions) for epoch in range(trial.epochs)]
