"""The teacher's privileged context, one file for each kind; `lessons` combines them.

Importing the package loads no model library.
"""
