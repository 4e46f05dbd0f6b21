"""A training run: its model, folder, checkpoints, metrics and processes."""
