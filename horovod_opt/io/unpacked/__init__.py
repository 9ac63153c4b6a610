"""Compressed files, unpacked once a node: in memory without a name, or in a folder of its disk.

As a whole, and not chunk by chunk: a place in such a file is known only to who has unpacked all
that is before it, and the order needs chunks of many files at a time. So the order, the node
cache, exactly-once and resuming are those of plain files."""
