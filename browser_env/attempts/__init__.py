"""Attempt logs: every browser call of a run with its outcome, for diagnosis afterwards."""
