"""What `pip install .` runs: fetch upstream, patch it, find the frameworks, compile, report."""


class BuildError(Exception):
    """The build cannot go on. The message says what was found and what the user can do."""
