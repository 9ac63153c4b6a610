"""The data that all series read: the same records in each peer's own format."""
