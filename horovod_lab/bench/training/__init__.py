"""Weak and strong scaling of training in the modes; docs/bench.md."""
