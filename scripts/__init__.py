"""The command line `selfsurf`, benchmarks and setup: thin, the work is done by the packages."""

from selfsurf.bare import alias

alias(__name__)
