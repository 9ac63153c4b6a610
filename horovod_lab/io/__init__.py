"""The input side measured beside others: docs/lab/io-bench.md."""
