"""A Gymnasium environment over real Chromium. The only package of this project that touches a browser."""

from __future__ import annotations
