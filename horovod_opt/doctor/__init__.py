"""`horovod-opt doctor`."""
