"""`horovod-opt bench sizes`: one allreduce by its size; docs/bench-sizes.md."""
