"""What the teacher is told and the student is not: one file a context; `lessons` puts them together.

Nothing here loads a model library when it is imported.
"""
