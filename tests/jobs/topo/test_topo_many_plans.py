"""Mode topo with more plans than can be active at a time."""

from __future__ import annotations

import pytest


@pytest.fixture
def reports(shared_job):
    return shared_job("topo_many_plans").succeeded().of_each(2)


def test_each_is_active_while_it_is_used(reports):
    for report in reports:
        assert report["active"] == 90
        assert report["right"] == [True] * 90
        assert set(report["before"]) == {"active", "ready"}
        assert report["again"] == "active"


def test_what_nobody_uses_any_more_is_forgotten(reports):
    for report in reports:
        assert report["last"] == "active"
        assert report["plans"] <= 3
