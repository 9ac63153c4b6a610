"""`horovod-opt bench`: what the modes bring in training, and what the background thread costs."""
