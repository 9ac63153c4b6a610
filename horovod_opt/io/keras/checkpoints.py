"""Weights and the position in the data in one place: both are there, or neither."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Optional

from horovod_opt.io.errors import InputError

WEIGHTS, STATE = "model.weights.h5", "data.json"


class Checkpoints:
    """Folders in `folder`, each named after its epoch and position; a name without a dot is a whole
    one. Of those only the newest is kept."""

    def __init__(self, folder: Path):
        self.folder = folder

    def newest(self) -> Optional[Path]:
        """The one to go on with, if there is any."""
        paths = [path for path in self.folder.glob("*-*") if path.name.replace("-", "").isdigit()]
        return max(paths, key=lambda path: tuple(map(int, path.name.split("-"))), default=None)

    def save(self, model: Any, state: dict[str, Any]) -> None:
        """Survives the death of the process at any point, and of the machine: it is synced."""
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = self.folder / f"{state['epoch']}-{state['position']}"
        if folder.exists():
            return
        part = self.folder / f".{folder.name}.{os.getpid()}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        model.save_weights(part / WEIGHTS)
        (part / STATE).write_text(json.dumps(state))
        for path in (part / WEIGHTS, part / STATE, part):
            _sync(path)
        part.rename(folder)
        _sync(self.folder)
        for path in self.folder.iterdir():
            if path.is_dir() and path != folder and _is_ours(path):
                shutil.rmtree(path, ignore_errors=True)

    @staticmethod
    def load(path: Path, model: Any) -> dict[str, Any]:
        """Sets the weights of the model and its optimizer; returns the state of the data.

        Raises InputError: this process cannot read it.
        """
        try:
            state = json.loads((path / STATE).read_text())
            model.load_weights(path / WEIGHTS)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be loaded: {error}; remedy: a folder that all ranks "
                             "share, and the model that was saved") from error
        return state


def _is_ours(path: Path) -> bool:
    epoch, _, position = path.name.lstrip(".").partition("-")
    return epoch.isdigit() and position.split(".")[0].isdigit()


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
