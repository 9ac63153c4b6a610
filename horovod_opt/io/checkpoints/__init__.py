"""Checkpoints in two tiers: synced to a fast storage, then copied to a slow one in the background.

A burst buffer, as in Chien et al., "Characterizing Deep-Learning I/O Workloads in TensorFlow"
(PDSW-DISCS 2018, doi:10.1109/PDSW-DISCS.2018.00011), III-C; its rules are its own:

B1. A name without a dot is complete: all of it was synced before it got that name. A version is
    complete when the parts of all its ranks are.
B2. From the first complete version on, one is durable: save() returns when the fast tier has synced
    it, and a fast copy goes only when the slow one is synced, too, and has the same bytes.
B3. Nothing of the slow tier goes before `keep` newer versions are complete there, and durable.
B4. What is restored matches its checksums, else an older version is taken, and that is said; all
    ranks take the same.

Where each rule is kept is written beside the code, in this folder's files, by these names.

    TIER/17/0/MANIFEST        version 17, the part of rank 0; and the saver's own files beside it
    TIER/.part-17-0-a1b2c3    being written; after a kill nobody's
    TIER/17/.gone-0-a1b2c3    being removed
    TIER/.lock-0              held by whoever writes parts of rank 0
"""
