"""Training that goes on where it was stopped: model, optimizer and position in the data as one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

import torch

from horovod_opt.io.checkpoints.signals import STOP
from horovod_opt.io.checkpoints.training import TrainingCheckpoints
from horovod_opt.io.data import Data
from horovod_opt.io.errors import InputError, tell

FILE = "state.pt"


class Resume:
    """Saves what has `state_dict()` and `load_state_dict()`, with the position in `data`.

        resume = hio.torch.Resume(data, "/lustre/job", fast="/local/job", every=500,
                                  model=model, optimizer=optimizer)
        while data.epoch < epochs and not resume.is_asked_to_stop:
            for batch in loader:
                ...
                if resume.step():  # at the end of the loop's body
                    break
        resume.close()

    On every rank, which loads the newest version as this is made; rank 0 saves. It goes on on any
    number of ranks, if model and optimizer have the same states there.

    Args:
        data: what the training reads.
        folder: where versions are kept; all ranks share it.
        every: steps; None: only where save() is called, as after each epoch.
        fast: a folder on rank 0's node: versions are saved there, and copied to `folder` while the
            training goes on, as hio.BurstBuffer does.
        keep: how many versions `folder` keeps.
        signals: step() saves and returns True after SIGTERM or SIGINT, if it is one of these, and
            saves after any other of these. Several ranks agree on it in every tenth step.
        states: by the name under which each is saved.

    Raises:
        InputError: on all ranks, if one cannot load; the text names the remedy.
    """

    def __init__(self, data: Data, folder: Union[str, os.PathLike], every: Optional[int] = None,
                 fast: Union[str, os.PathLike, None] = None, keep: int = 1,
                 signals: Sequence[int] = (), **states: Any):
        if every is not None and (not isinstance(every, int) or every < 1):
            raise InputError(f"every={tell(every)}; remedy: a whole number of at least 1")
        for name, state in states.items():
            if not hasattr(state, "state_dict") or not hasattr(state, "load_state_dict"):
                raise InputError(f"{name}={tell(state)} has no state_dict() and load_state_dict()"
                                 "; remedy: such as model=model, optimizer=optimizer")
        self._states, self._every, self._steps = states, every, 0
        self._checkpoints = TrainingCheckpoints(data, folder, fast, keep, signals)
        self._checkpoints.open()
        try:
            self.is_resumed = self._checkpoints.load(self._load)
        except BaseException:
            self._checkpoints.close(drain=False)
            raise
        self.is_asked_to_stop = False

    def step(self) -> bool:
        """After each step of the training, on all ranks: whether it is to end, which is saved."""
        self._steps += 1
        asked = self._checkpoints.asked()
        if asked or (self._every and self._steps % self._every == 0):
            self.save()
        self.is_asked_to_stop = self.is_asked_to_stop or asked == STOP
        return self.is_asked_to_stop

    def save(self) -> None:
        """Now, on all ranks; nothing if this place in the data is saved already."""
        self._checkpoints.save(lambda folder: torch.save(
            {name: state.state_dict() for name, state in self._states.items()}, folder / FILE))

    def close(self) -> None:
        """Waits until all is in `folder`. Raises DataError: it cannot be written to."""
        self._checkpoints.close()

    def _load(self, folder: Path) -> None:
        saved = torch.load(folder / FILE, map_location="cpu", weights_only=True)
        if saved.keys() != self._states.keys():
            raise InputError(f"{folder} has {', '.join(saved) or 'nothing'}, and here are "
                             f"{', '.join(self._states) or 'none'}; remedy: the same names")
        for name, state in self._states.items():
            state.load_state_dict(saved[name])

    def __enter__(self) -> Resume:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
