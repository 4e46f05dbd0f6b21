"""Runs an agent on a suite of tasks: in processes or on Ray, resumable."""
