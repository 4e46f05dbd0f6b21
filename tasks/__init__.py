"""Task sets with their goals, scores and oracles, independent of browsers and models."""

from selfsurf.bare import alias

alias(__name__)
