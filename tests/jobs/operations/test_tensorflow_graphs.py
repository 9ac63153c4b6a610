"""What TensorFlow's optimizer could evaluate once and for all is a collective of each step."""

from __future__ import annotations

import pytest

CALLS = 6


@pytest.mark.parametrize("controller, mode", [("mpi", "off"), ("mpi", "topo"), ("gloo", "topo")])
def test_collectives_of_constants(job, controller, mode):
    ended = job("constants", framework="tensorflow", controller=controller,
                HOROVOD_OPT_MODE=mode).succeeded()
    for report in ended.of_each(2):
        assert report["sums"] == [[3.0, 4.0]] * CALLS
        assert report["steps"] == CALLS
        assert report["mixed"] == [[5.0 + call] for call in range(CALLS)]
        assert report["loops"] == [[60.0]] * CALLS
        assert report["gathered"] == [[[0, 1, 0, 1, 2]] * 8] * CALLS
        assert report["plans"] == (["active"] * 2 if mode == "topo" else [])
