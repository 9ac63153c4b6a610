"""What the ranks of a job tell each other before the first batch; nothing after it."""
