"""The order of samples, and who takes them when."""
