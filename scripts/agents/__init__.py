"""Measurements of agents and policies: speed, the action cache, baselines."""
