"""Is topo the fastest mode between nodes as well? docs/bench-nodes.md."""
