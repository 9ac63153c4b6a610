"""PyTorch's operations do with a tensor in any memory layout what they do with a contiguous one.

Each operation, layout and type of workers/operations/torch_layouts.py runs on two ranks.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
MODES = ("off", "topo")


@pytest.fixture(params=MODES)
def reports(request, shared_job):
    ranks = shared_job("torch_layouts", *MODES).expect_success().of_ranks(2)
    return [report[request.param] for report in ranks]


@pytest.mark.parametrize("what", ["results", "gradients", "parameters"])
def test_each_layout(reports, what):
    for report in reports:
        assert report[what] == {}
        assert report["calls"] > 400


def test_elements_that_share_memory(reports):
    """They get one value, in place, if the root has one for all of them."""
    values = str([2.0, float("nan"), 4.0, float("inf")])
    (other, stride, error), (root, _) = (report["expanded"] for report in reports)
    assert other == root == values
    assert stride == [1, 0]
    assert error.startswith("rank 0: a tensor of shape [4, 3] and strides [3, 0] cannot take what")
