"""What does the background thread cost in each mode? Small workloads; docs/lab/benchmark.md."""
