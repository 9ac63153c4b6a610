"""Which states a program's files can be in after a crash: recorded once, then all are looked at.

The method is ALICE's (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014): after
each change, every subset of the changes that were not synced may have reached the storage.
"""

DRAWN = 256  # subsets, where there are too many for all
