"""What `horovodrun` does beyond upstream."""
