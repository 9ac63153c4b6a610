"""The conditions under which a series is measured."""
