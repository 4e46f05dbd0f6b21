"""A guard for actions on elements that no longer exist."""

from __future__ import annotations

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.browser_env import Action, Observation

_Kind = tuple[str, str]


class VanishedElement(Guard):
    """Guard that replaces a vanished element, as after a page rebuild, with the only one of the same role and name.

    Without exactly one such element, and for disabled elements, it only adds a note: the environment reports the error.
    """

    name = "vanished"

    def reset(self) -> None:
        """Forget the elements of the last episode."""
        self._known: dict[int, _Kind] = {}

    @property
    def known(self) -> frozenset[int]:
        """Ids of all elements seen in this episode."""
        return frozenset(self._known)

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Redirect an action on a vanished element to its only replacement, and note disabled or missing elements."""
        present = {element["id"]: element for element in obs["elements"]}
        before = dict(self._known)
        self._known.update((number, (element["role"], element["name"])) for number, element in present.items())
        number = getattr(action, "id", None)
        if number is None:
            return Verdict(action)
        element = present.get(number)
        if element is not None:
            disabled = "disabled" in element["states"]
            return Verdict(action, f"Element {number} is disabled." if disabled else "")
        gone = f"Element {number} is not on the page any more."
        same = [other for other, element in present.items() if (element["role"], element["name"]) == before.get(number)]
        if len(same) != 1:
            return Verdict(action, gone)
        return Verdict(action.model_copy(update={"id": same[0]}), f"{gone} Took {same[0]}, the same by role and name.")
