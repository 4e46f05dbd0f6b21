"""Checks, installation and processes on this machine."""
