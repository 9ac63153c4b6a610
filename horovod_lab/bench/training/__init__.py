"""Weak and strong scaling of training in the modes; docs/lab/bench.md."""
