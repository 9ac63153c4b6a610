"""What measures, predicts and compares: `horovod-opt bench`, `io bench`, `profile`, `simulate` and
`report`. A training imports nothing of it."""
