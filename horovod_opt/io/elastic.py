"""Elastic training: the position in the data belongs to the state, as the weights do.

    data = hio.open(pattern, seed=1, elastic=True)
    state = hvd.elastic.TorchState(model, optimizer)   # or another one
    hio.elastic.attach(state, data)

    @hvd.elastic.run
    def train(state):
        for batch in hio.torch.loader(data, batch_size=64): ...; state.commit()
"""

from __future__ import annotations

from typing import Any

from horovod_opt.io.data import Data
from horovod_opt.io.errors import InputError, tell
from horovod_opt.io.job.agreement import run_together
from horovod_opt.io.job.communication import find


def attach(state: Any, data: Data) -> None:
    """From now on the position in `data` is saved, restored and sent to new ranks with `state`.

    state: any of horovod's elastic states: ObjectState, TorchState, TensorFlowState,
    TensorFlowKerasState, KerasState. On every rank, before the function under `hvd.elastic.run` is
    called; that function makes the loaders, each time it is called. The end of another rank, which
    ends the node's reading, is for it a failure of Horovod's: it goes back to the last commit.

    Raises InputError: `data` was not opened with elastic=True, or `state` is none.
    """
    from horovod.common.elastic import State
    from horovod.common.exceptions import HorovodInternalError

    if not isinstance(state, State):
        raise InputError(f"state={tell(state)}; remedy: a state of hvd.elastic")
    if not data.is_elastic:
        raise InputError("the data set was opened by all ranks together, which a rank that comes "
                         "later cannot join; remedy: hio.open(..., elastic=True)")
    data.interruption = HorovodInternalError
    _Attached(state, data)


class _Attached:
    """Stands before the methods of one state object that hvd.elastic calls."""

    def __init__(self, state: Any, data: Data):
        self._bcast_object, self._data = state._bcast_object, data
        self._save, self._restore = state.save, state.restore
        self._sync, self._reset = state.sync, state.reset
        state.save, state.restore = self.save, self.restore
        state.sync, state.reset = self.sync, self.reset
        self._saved: dict[str, Any] = data.state_dict()

    def save(self) -> None:
        self._save()
        self._saved = self._data.state_dict()

    def restore(self) -> None:
        self._restore()
        self._data.load_state_dict(self._saved)

    def reset(self) -> None:
        """New ranks, with which nobody has spoken yet: some wait in sync(), or go to it later."""
        self._data.part()
        self._reset()

    def sync(self) -> None:
        """What rank 0 has, which has been in the job before if any has."""
        self._sync()
        data, state = self._data, self._bcast_object(self._data.state_dict())
        run_together(find(), lambda: data.take_state(state))
        self._saved = data.state_dict()
