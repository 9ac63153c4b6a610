"""What is measured: a suite has its series, targets, tables and pictures."""
