"""Measurements of training: speed of learning steps, threads, and the effect of the teacher's contexts."""
