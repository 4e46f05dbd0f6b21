"""Policies, one file a backend."""
