"""The checkpoints of a training: rank 0 saves model and position in the data as one version."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

from horovod_opt.io.checkpoints.burst_buffer import BurstBuffer, Folder
from horovod_opt.io.checkpoints.files import remove
from horovod_opt.io.checkpoints.signals import Signals
from horovod_opt.io.data import Data
from horovod_opt.io.errors import InputError
from horovod_opt.io.job.agreement import require_equal, run_together
from horovod_opt.io.job.communication import Communication

STATE = "data.json"
STEPS_BETWEEN = 10  # after so many ranks ask each other for signals

# By folder, of this process: one whose training has raised an exception is in the way of the next.
_open: weakref.WeakValueDictionary[Path, BurstBuffer] = weakref.WeakValueDictionary()


class TrainingCheckpoints:
    """Versions in `folder`, which all ranks share, or first in `fast`, which is rank 0's node's.
    A version's number counts samples: epoch by epoch, and those before the position.

    Folders named EPOCH-POSITION are those of earlier releases: the newest is gone on with, and they
    go once there is a version. Raises InputError.
    """

    def __init__(self, data: Data, folder: Folder, fast: Optional[Folder], keep: int,
                 signals: Sequence[int]):
        self._data, self._folder, self._fast, self._keep = data, Path(folder), fast, keep
        self._signals_to_take = tuple(signals)
        self._signals: Optional[Signals] = None
        self._buffer: Optional[BurstBuffer] = None
        self._saved, self._steps = -1, 0

    def open(self) -> None:
        """Collective, as a training begins."""
        self.close(drain=False)
        self._signals = Signals(self._signals_to_take)
        self._saved = -1
        self._ranks.allgather(b"")  # in an elastic job another rank may have been the first
        run_together(self._ranks, self._open_buffer)

    @property
    def _ranks(self) -> Communication:
        return self._data.ranks.doing(f"opens, loads or asks for checkpoints in {self._folder}")

    def _open_buffer(self) -> None:
        if self._data.ranks.rank:
            return
        key = self._folder.absolute()
        if key in _open:
            _open[key].close(drain=False)
        self._buffer = _open[key] = BurstBuffer(self._fast, self._folder, self._keep)

    def load(self, load: Callable[[Path], None]) -> bool:
        """Collective: the newest version, by a function that is given its folder, and the position;
        whether there is one. Raises InputError on all ranks if one cannot load it."""
        data = self._data
        name = self._ranks.allgather(
            str(run_together(self._ranks, self._newest) or "").encode())[0].decode()
        if not name:
            return False
        state = run_together(self._ranks, lambda: self._load_from(Path(name), load))
        run_together(self._ranks, lambda: data.take_state(state))
        data.renew_loaders()  # which asks the others itself
        require_equal(self._ranks, {"epoch": data.epoch, "position": data.position},
                      "a folder that all ranks share")
        self._saved = self._number(state)
        return True

    def _newest(self) -> Optional[Path]:
        """Rank 0 says which. Other nodes do not see its fast folder: they wait for the copy."""
        if self._buffer is None:
            return None
        path = self._buffer.restore()
        if path is None:
            old = self._old_folders()
            if not old and self._buffer.has_versions():
                raise InputError(f"{self._folder} has versions, but none is as it was saved, or "
                                 "complete; remedy: see what is above; to begin anew, another "
                                 "folder")
            return old[-1] if old else None
        if self._data.ranks.size == 1 or self._fast is None:
            return path
        self._buffer.drain()
        return self._folder.absolute() / path.parent.name / path.name

    @staticmethod
    def _load_from(path: Path, load: Callable[[Path], None]) -> dict[str, Any]:
        try:
            state = json.loads((path / STATE).read_text())
            load(path)
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise InputError(f"{path} cannot be loaded: {error}; remedy: a folder that all ranks "
                             "share, and the model that was saved") from error
        return state

    def save(self, write: Callable[[Path], None]) -> None:
        """On all ranks, of which rank 0 saves, by a function that is given a folder. Nothing, if
        this position is saved already."""
        state = self._data.state_dict()
        number = self._number(state)
        if self._buffer is None or number == self._saved:
            return

        def write_all(folder: Path) -> None:
            write(folder)
            (folder / STATE).write_text(json.dumps(state))

        self._buffer.save_with(number, write_all)
        self._saved = number
        for path in self._old_folders():
            remove(path)

    def _number(self, state: dict[str, Any]) -> int:
        return state["epoch"] * len(self._data) + state["position"]

    def asked(self) -> Optional[str]:
        """On all ranks, after each step: "stop", "save" or None. Several ranks ask each other now
        and then."""
        if not self._signals_to_take or self._signals is None:
            return None
        self._steps += 1
        if self._data.ranks.size > 1 and self._steps % STEPS_BETWEEN:
            return None
        return self._signals.asked(self._ranks)

    def close(self, drain: bool = True) -> None:
        if self._signals is not None:
            self._signals.restore()
            self._signals = None
        if self._buffer is not None:
            buffer, self._buffer = self._buffer, None
            buffer.close(drain)

    def _old_folders(self) -> list[Path]:
        """Those of earlier releases, the newest last."""
        found = [path for path in self._folder.glob("*-*") if path.is_dir()
                 and path.name.replace("-", "").isdigit() and path.name.count("-") == 1]
        return sorted(found, key=lambda path: tuple(map(int, path.name.split("-"))))
