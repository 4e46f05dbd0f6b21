"""What an agent around a language model remembers of an episode."""

from __future__ import annotations

from dataclasses import dataclass, field

from selfsurf.agents import guards as guarding
from selfsurf.agents.agent import Act, Decision
from selfsurf.agents.aids.base import Aid
from selfsurf.agents.prompt.page import label
from selfsurf.agents.reply.compact import compact
from selfsurf.agents.sequence import Rest
from selfsurf.browser_env import Action, Observation
from selfsurf.browser_env.text import well_formed


@dataclass
class Memory:
    """Of one episode, for the next prompt."""

    goal: str = ""
    history: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    """What came before each entry of the history."""
    error: str = ""
    advice: str = ""
    """From the guards, for the next prompt."""
    guards: list[guarding.Guard] = field(default_factory=list)
    aids: list[Aid] = field(default_factory=list)
    kinds: tuple[str, ...] = ()
    """Of actions that are offered in this episode."""
    files: tuple[str, ...] = ()
    """That may be uploaded."""
    rest: Rest | None = None
    """Of the last reply."""
    left: str = ""
    """What the last reply said that was not done."""
    queries: bool = False
    """Whether a query is answered (`agents.agent.Query`)."""
    held: Decision | None = None
    """The next decision, until the page was looked at once more."""
    aided: bool = False
    """Whether the aids have noted the last entry of the history."""

    @property
    def known(self) -> frozenset[int]:
        """Elements that a guard has seen, and may find again."""
        return frozenset().union(*(guard.known for guard in self.guards if isinstance(guard, guarding.Vanished)))

    def note(self, entry: str, thought: str = "") -> None:
        """Remember what was done."""
        self.history.append(well_formed(entry))
        self.thoughts.append(well_formed(thought))
        self.aided = False

    def take_back(self) -> None:
        """Forget the last entry: it was not carried out."""
        del self.history[-1:], self.thoughts[-1:]
        for aid in self.aids if self.aided else ():
            aid.take_back()
        self.aided, self.rest, self.held = False, None, None

    def doubts(self, action: Act, obs: Observation) -> bool:
        """Return whether the action repeats one that seems to have changed the page: it may have changed by itself."""
        again = not isinstance(action, str) and action.to_json() == obs["last_action"]
        return self.queries and again and any(isinstance(one, guarding.Stuck) and one.changed for one in self.guards)

    def look(self, obs: Observation) -> None:
        """Take the page as it is just before the action."""
        for guard in self.guards:
            guard.look(obs)
        for aid in self.aids:
            aid.look(obs)

    def did(self, action: Act, obs: Observation, thought: str = "") -> None:
        """Remember an action that was chosen on a page; a str is a reply that was none."""
        if isinstance(action, str):
            self.note("an unreadable reply", thought)
            return
        entry = describe(action, obs)
        self.note(entry, thought)
        for aid in self.aids:
            aid.did(action, obs, entry)
        self.aided = True

    def told(self, obs: Observation) -> str:
        """Return what the next prompt says besides the page, the history and the error."""
        aided = (aid.told(obs, self.goal or obs["goal"]) for aid in self.aids)
        return " ".join(filter(None, (self.left, self.advice, *aided)))


def describe(action: Action, obs: Observation) -> str:
    """An action for the history: its compact form and what the element was called, for ids may change their page."""
    return " ".join(filter(None, (compact(action), elements_of(action, obs))))


def elements_of(action: object, obs: Observation) -> str:
    """What the elements of an action are called on its page; empty for one without any."""
    by_id = {element["id"]: element for element in obs["elements"]}
    ids = (getattr(action, key, None) for key in ("id", "from_", "to"))
    return " to ".join(label({**by_id[number], "value": "", "states": ()}) for number in ids if number in by_id)
