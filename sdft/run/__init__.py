"""A training run: model, folder, checkpoints, metrics, processes."""
