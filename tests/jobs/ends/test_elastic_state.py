"""hvd.elastic.TensorFlowState meets the other ranks in sync(), and not when it is made."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("controller, mode", [("mpi", "off"), ("gloo", "topo")])
def test_a_state_of_variables(job, controller, mode):
    ended = job("elastic_state", framework="tensorflow", controller=controller,
                HOROVOD_OPT_MODE=mode).succeeded()
    for rank, seen in enumerate(ended.of_each(2)):
        assert seen == {"made": [rank + 1.0], "synced": [1.0], "restored": [1.0], "batch": 0}
