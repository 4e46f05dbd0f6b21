"""Losses of the trainers: logits, divergence, scoring, rehearsal and practice."""
