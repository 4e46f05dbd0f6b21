"""The command line `selfsurf`, benchmarks and setup. The packages do the work."""

from selfsurf.bare import alias

alias(__name__)
