"""Wrappers for libraries that learn from numbers: observations of fixed size, and actions to choose from."""

from selfsurf.browser_env.wrappers.click_element import ClickElement
from selfsurf.browser_env.wrappers.flat_observation import FlatObservation
from selfsurf.browser_env.wrappers.text_observation import TextObservation

__all__ = ["ClickElement", "FlatObservation", "TextObservation"]
