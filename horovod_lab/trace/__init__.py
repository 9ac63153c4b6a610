"""`horovod-opt trace`: the timelines of all ranks as one, for Perfetto and chrome://tracing."""
