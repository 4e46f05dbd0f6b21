"""Losses against forgetting: rehearsal of the untrained model, practice of an earlier adapter."""
