"""What `horovod-opt io` does."""
