"""Measurements of the training service."""
