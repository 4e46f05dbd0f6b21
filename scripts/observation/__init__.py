"""Measurement of the observation against Chromium's accessibility tree, on real pages."""
