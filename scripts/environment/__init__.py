"""Measurements of the environment against the raw limit and peers."""
