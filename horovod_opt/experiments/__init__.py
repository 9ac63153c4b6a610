"""Measurements on the machine at hand; see docs/benchmark.md."""
