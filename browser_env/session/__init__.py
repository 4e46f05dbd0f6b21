"""Contexts and tabs of an environment: how they are opened, watched, limited and closed."""
