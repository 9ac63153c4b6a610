"""In mode topo the sum of a tensor of TensorFlow takes its memory, if nobody else reads it."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("controller, mode, settings", [
    ("mpi", "off", {}),
    ("mpi", "topo", {}),
    ("gloo", "topo", {"HOROVOD_OPT_NODE_RANKS": "1"}),
    ("gloo", "topo", {"HOROVOD_OPT_SHARED_MEMORY": "0"}),
], ids=["off", "node", "nodes", "operations"])
def test_a_sum_in_place_of_its_tensor(job, controller, mode, settings):
    ended = job("result_memory", framework="tensorflow", controller=controller,
                HOROVOD_OPT_MODE=mode, **settings).succeeded()
    for report in ended.of_each(2):
        assert report["right"] == [True] * 24
        assert report["in_place"] == [mode == "topo"] * 12
        assert report["plans"] == (["active"] * 3 if mode == "topo" else [])
