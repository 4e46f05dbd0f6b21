"""Generators of documentation: reference of training settings, map of rooms, recording, site.

In a checkout, `python -m selfsurf.scripts.docs` writes the first two, and with `site` it builds docs/ and an API
reference as web pages. `python -m selfsurf.scripts.docs.recording` draws the recording of two episodes.
"""
