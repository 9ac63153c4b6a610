"""What runs on the ranks: programs that need no horovod_opt, so that they run with any Horovod."""
