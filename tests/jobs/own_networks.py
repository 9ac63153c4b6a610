"""Hosts with networks of their own, where this machine can have some."""

from __future__ import annotations

from pathlib import Path

import pytest

from horovod_lab.measuring.virtual_hosts import NoHosts, VirtualHosts


def hosts_or_skip(folder: Path, number: int, megabits: float | None = None) -> VirtualHosts:
    """Arguments as of VirtualHosts; without the programs or rights the test is skipped."""
    try:
        return VirtualHosts(folder, number, megabits)
    except NoHosts as missing:
        pytest.skip(str(missing))
