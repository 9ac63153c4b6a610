"""The reader of a node: a leader reads each byte once, ranks take samples out of shared memory.

A `Leader` makes the ring and reads; a `Member` is a rank, or one of its workers. After set-up they
say nothing to each other but through the ring: csrc/io/node_cache/node_cache_memory.h.
"""
