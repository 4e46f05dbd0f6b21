"""Episodes on disk: written, read, replayed, and recorded from what a person does in a window."""
