"""Agents: observations in, actions out. Importing this loads no model library; `make` does when it has to."""

from __future__ import annotations
