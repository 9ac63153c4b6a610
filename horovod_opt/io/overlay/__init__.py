"""Files of a pack for programs that know nothing of it: `horovod-opt io run`.

A library that is loaded before libc (csrc/io/overlay) answers what a program asks of paths below a
folder. What the pack has is a table that all programs of a node map (file_table.py). Bytes come
from the tars that lie on the node, or, where they are compressed or on another node, from the
store, a process of the node (store.py, peers.py). What programs write is a file of another folder,
which the store gives its name when it is complete (outputs.py). The store begins with a node's
first program and ends with its last; nothing that it has is a file, so nothing is left of a job
that was killed.
"""
