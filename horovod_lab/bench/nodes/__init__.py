"""Is topo the fastest mode between nodes as well? docs/lab/bench-nodes.md."""
