"""Files of a folder, read by their paths through one file system or another."""
