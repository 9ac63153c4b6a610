"""`horovod-opt bench`: what the modes cost and bring, in two suites."""
