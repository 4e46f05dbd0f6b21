"""Makes what docs/ does not say by hand: the reference of training settings, map of rooms, recording, site.

In a checkout `python -m selfsurf.scripts.docs` writes the first two, and with `site` it builds docs/ and a reference of
the public names as web pages; `python -m selfsurf.scripts.docs.recording` makes the recording of two episodes.
"""
