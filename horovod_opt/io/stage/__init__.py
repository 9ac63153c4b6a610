"""Staging: data comes from where all nodes see it, or from the network, to a node's own disk."""
