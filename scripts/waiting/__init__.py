"""Runs that wait for a person: what they leave on disk, and how an answer reaches them."""
