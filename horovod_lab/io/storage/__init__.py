"""The simulated parallel file system: its server, and the files that it serves."""
