"""`horovod-opt report`: everything that was measured and simulated, as one page; docs/report.md."""
