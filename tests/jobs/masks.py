"""What the worker `cores` saw of the CPUs of its threads."""

from __future__ import annotations


def assert_apart(run: dict) -> None:
    """The background thread has cores of its own."""
    background, *planned = run["during"]["background"]
    all_cpus = set(run["before"]["rest"][0])
    assert background
    assert set(background) < all_cpus
    assert all(cpus == background for cpus in planned)
    for cpus in run["during"]["rest"]:
        assert set(cpus) == all_cpus - set(background)
