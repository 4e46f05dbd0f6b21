"""Turns a page into an observation: the in-page pass, the outline and its deltas, screenshots and marks."""
