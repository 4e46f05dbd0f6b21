"""What is to be done and how it is scored: task sets, their oracles, and nothing about browsers or models."""

from selfsurf.bare import alias

alias(__name__)
