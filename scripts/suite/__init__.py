"""Evaluation of an agent on a suite of tasks, resumable, in processes or on Ray."""
