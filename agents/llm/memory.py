"""An `LLMAgent`'s memory of an episode."""

from __future__ import annotations

from dataclasses import dataclass, field

from selfsurf.agents import guards as guarding
from selfsurf.agents.agent import Act, Decision
from selfsurf.agents.llm.sequence import PendingActions
from selfsurf.agents.policy import Completion
from selfsurf.agents.prompt.page import label
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env import Action, Observation
from selfsurf.browser_env.text import well_formed


@dataclass
class Memory:
    """An agent's memory of one episode, from which the next prompt is written."""

    goal: str = ""
    history: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    """The model's thoughts, one before each entry of the history; empty for none."""
    error: str = ""
    advice: str = ""
    """Advice from the guards for the next prompt."""
    guards: list[guarding.Guard] = field(default_factory=list)
    kinds: tuple[str, ...] = ()
    """Kinds of actions offered in the episode."""
    files: tuple[str, ...] = ()
    """Names of the files that may be uploaded."""
    rest: PendingActions | None = None
    """Remaining actions of the last reply."""
    left: str = ""
    """Report on the actions of the last reply that were not executed."""
    queries: bool = False
    """Whether queries are answered (`agents.agent.Query`)."""
    held: Decision | None = None
    """The next decision, held back until the page has been looked at again."""

    @property
    def known(self) -> frozenset[int]:
        """Ids of all elements that the guard `VanishedElement` has seen in the episode."""
        return frozenset().union(*(guard.known for guard in self.guards if isinstance(guard, guarding.VanishedElement)))

    def note(self, entry: str, thought: str = "") -> None:
        """Append an entry to the history."""
        self.history.append(well_formed(entry))
        self.thoughts.append(well_formed(thought))

    def take_back(self) -> None:
        """Remove the last entry of the history, whose action was not executed."""
        del self.history[-1:], self.thoughts[-1:]
        self.rest = self.held = None

    def doubts(self, action: Act, obs: Observation) -> bool:
        """Whether the action repeats the last action although the page changed, possibly by itself."""
        again = not isinstance(action, str) and action.to_json() == obs["last_action"]
        return (
            self.queries and again and any(isinstance(one, guarding.ChangeGuard) and one.changed for one in self.guards)
        )

    def hear(self, completion: Completion) -> None:
        """Show the guards the reply that contains the next action."""
        for guard in self.guards:
            guard.heard(completion)

    def look(self, obs: Observation) -> None:
        """Show the guards the page as it is just before the action."""
        for guard in self.guards:
            guard.look(obs)

    def did(self, action: Act, obs: Observation, thought: str = "") -> None:
        """Record an action chosen on a page; a str is a reply without an action."""
        if isinstance(action, str):
            self.note("an unreadable reply", thought)
            return
        self.note(describe(action, obs), thought)

    @property
    def report(self) -> str:
        """The next prompt's advice: unexecuted actions, and the guards' advice."""
        return " ".join(filter(None, (self.left, self.advice)))


def describe(action: Action, obs: Observation) -> str:
    """Return the history entry of an action: its compact form and its element's label, because ids may change."""
    return " ".join(filter(None, (compact(action), elements_of(action, obs))))


def elements_of(action: object, obs: Observation) -> str:
    """Return the labels of the elements that an action refers to; empty for none."""
    by_id = {element["id"]: element for element in obs["elements"]}
    ids = (getattr(action, key, None) for key in ("id", "from_", "to"))
    return " to ".join(label({**by_id[number], "value": "", "states": ()}) for number in ids if number in by_id)
