"""`horovod-opt bench`: weak and strong scaling of the modes; docs/bench.md."""
