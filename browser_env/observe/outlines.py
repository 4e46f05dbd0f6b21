"""Reconstruction of whole outlines from observations that hold only changes (`obs_mode="delta"`)."""

from __future__ import annotations

from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.observe.delta import CHANGED, NEW_PAGE, NO_CHANGE, WHOLE, apply_delta


class Outlines:
    """Tracker of one environment's outlines. Whole outlines pass unchanged."""

    def __init__(self) -> None:
        self._last: str | None = None
        self._given = ""

    def whole(self, obs: Observation) -> Observation:
        """Return the observation with its whole outline. Call it with every observation, in order.

        The same observation may be given again, as after a failed policy call.

        Raises:
            ValueError: the observation holds changes to an outline that was not given here.
        """
        given = obs["dom"]
        if given is self._given and self._last is not None:
            return Observation(**{**obs, "dom": self._last})
        if _is_delta(obs):
            first = obs["dom"].partition("\n")[0]
            if self._last is None and first in (NO_CHANGE, CHANGED):
                raise ValueError(_UNKNOWN)
            try:
                whole = apply_delta(self._last or "", obs["dom"])
            except ValueError:
                raise ValueError(_UNKNOWN) from None
            obs = Observation(**{**obs, "dom": whole})
        self._last, self._given = obs["dom"], given
        return obs


_UNKNOWN = (
    "This observation contains only the changes on the page, and the agent has not seen the page before them. Give the "
    'agent every observation of the episode, or create the environment with obs_mode="full".'
)


def _is_delta(obs: Observation) -> bool:
    """Whether an observation holds changes, rather than a page that begins with the same words."""
    first = obs["dom"].partition("\n")[0]
    said = first in (NEW_PAGE, WHOLE, CHANGED) or obs["dom"] == NO_CHANGE
    return said and not obs["page_text"].lstrip().startswith(first)
