"""Runs that wait for a person: their files on disk, and the delivery of answers."""
