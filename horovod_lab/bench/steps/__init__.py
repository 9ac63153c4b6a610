"""Is topo the fastest mode for every kind of training step? docs/lab/bench-steps.md."""
