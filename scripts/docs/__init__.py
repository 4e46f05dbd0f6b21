"""Makes what docs/ does not say by hand: the reference of training settings, the map of the rooms, the recording.

`python -m selfsurf.scripts.docs`, in a checkout, writes the first two; `python -m selfsurf.scripts.docs.recording`
makes the third of two episodes.
"""
