"""Measures the environment: the raw work in a step, and ours and the peers' beside it."""
