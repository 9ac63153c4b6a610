"""The suite savers: which ways to save a checkpoint lose what in which crash."""
