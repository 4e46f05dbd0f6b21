"""Episodes on disk: written, read, replayed, and recorded from a person's actions in a browser window."""
