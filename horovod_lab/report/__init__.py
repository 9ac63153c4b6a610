"""`horovod-opt report`: all that was measured and simulated, as one page; docs/lab/report.md."""
