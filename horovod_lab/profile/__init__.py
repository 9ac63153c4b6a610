"""`horovod-opt profile`: what the threads of every rank of a Horovod job do, seen from /proc."""
