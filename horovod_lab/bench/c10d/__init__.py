"""`horovod-opt bench c10d`: torch.distributed's backends; docs/lab/bench-c10d.md."""
