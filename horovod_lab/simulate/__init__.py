"""Predicts what the modes bring at any number of ranks; see docs/lab/simulation.md."""
