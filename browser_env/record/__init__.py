"""Episodes on disk: written, recorded from a person, replayed."""
