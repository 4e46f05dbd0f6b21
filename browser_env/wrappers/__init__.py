"""Wrappers for libraries that train on numbers: observations of fixed size, and a fixed set of actions."""

from selfsurf.browser_env.wrappers.click_element import ClickElement
from selfsurf.browser_env.wrappers.flat_observation import FlatObservation
from selfsurf.browser_env.wrappers.text_observation import TextObservation

__all__ = ["ClickElement", "FlatObservation", "TextObservation"]
