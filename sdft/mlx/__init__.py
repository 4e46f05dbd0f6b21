"""SDFT on MLX: the same rows, objective and run as on torch, which is not needed. Loads no MLX when imported."""
