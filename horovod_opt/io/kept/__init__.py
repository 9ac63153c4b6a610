"""The job's memory: chunks that nodes keep for each other (DeepIO)."""
