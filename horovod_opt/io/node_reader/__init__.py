"""The reader of a node: one process reads each byte once, ranks take samples out of its memory.

A `Reader` makes the node cache and reads; a `Member` is a rank, or one of its workers. After set-up
they say nothing to each other but through the node cache: csrc/io/node_cache/node_cache_memory.h.
"""
