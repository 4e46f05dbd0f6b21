"""Training rows from episodes."""
