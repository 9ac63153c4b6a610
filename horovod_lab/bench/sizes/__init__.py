"""`horovod-opt bench sizes`: one allreduce by its size; docs/lab/bench-sizes.md."""
