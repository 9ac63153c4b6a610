"""Order and fusion of collectives from a framework's graph, in pure Python."""
