"""Observation of pages: the in-page pass, the outline and its deltas, screenshots and marks."""
