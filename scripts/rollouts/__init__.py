"""Measurement of rollouts with workers, and extrapolation to larger clusters."""
