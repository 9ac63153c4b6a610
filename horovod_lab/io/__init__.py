"""The input side measured beside others: docs/io-bench.md."""
