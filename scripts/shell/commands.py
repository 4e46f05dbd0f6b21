"""Execution of a shell's lines: commands if they begin with `/`, goals otherwise."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from rich.console import Console

from selfsurf.agents.play import AgentAdapter, Result
from selfsurf.agents.play.job import claims
from selfsurf.agents.play.provenance import versions
from selfsurf.browser_env import ActionError, EnvError
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.observe.find import as_outline
from selfsurf.browser_env.record.episode import Episode, EpisodeError, EpisodeWriter
from selfsurf.browser_env.record.verdict import Mark, Says, mark_episode
from selfsurf.browser_env.safety.terminal import printable
from selfsurf.scripts.shell.folder import SessionFolder, steps_so_far
from selfsurf.scripts.shell.goal import INTERRUPTED, Goal, GoalInterrupt
from selfsurf.scripts.shell.reader import Reader
from selfsurf.scripts.shell.tabs import Tabs
from selfsurf.scripts.terminal.console import console, show_error
from selfsurf.scripts.terminal.limits import Limits
from selfsurf.scripts.terminal.live import Lines, State, View, spent


class CommandRefused(ValueError):
    """A command that can't be carried out; the message gives the reason."""


class CommandExecutor:
    """Executor of the shell's lines.

    Args:
        agent: Agent that acts.
        about: Metadata of each episode (`EpisodeWriter`).
        tabs: Browser session in which the agent acts.
        session: Stored session.
        reader: Input that answers the agent's questions.
        most_steps: Step limit of a goal.
        limits: Limits of tokens, cost and time of each goal.
        as_json: Whether to print results as JSON, and no progress.
    """

    def __init__(
        self,
        agent: AgentAdapter,
        about: dict[str, Any],
        tabs: Tabs,
        session: SessionFolder,
        reader: Reader,
        *,
        most_steps: int,
        limits: Limits,
        as_json: bool = False,
    ) -> None:
        self.tabs, self.session, self.reader = tabs, session, reader
        self.over = False
        """Whether the shell ends after this line."""
        self.terminated = False
        """Whether a SIGTERM ended the shell."""
        self._agent, self._about, self._most_steps, self._as_json = agent, about, most_steps, as_json
        self._limits = limits
        self._places: list[str] = []
        """For each step of the last goal that can be taken back, the address open before it."""
        self._steps: list[dict[str, Any]] = []
        """Recorded steps of the last goal, except those taken back."""
        goals = session.goals
        with contextlib.suppress(EpisodeError):  # a damaged goal can't be continued
            self._steps = steps_so_far(goals[-1]) if goals else []
            last = session.about["last"]
            if goals and last.get("goal") == goals[-1].name:
                self._steps = self._steps[: last["steps"]]
                self._places = list(last["places"])

    @staticmethod
    def all() -> dict[str, str]:
        """Return each command's name with its description."""
        members = inspect.getmembers(CommandExecutor, inspect.isfunction)
        found = {f"/{name.removeprefix('do_')}": one for name, one in members if name.startswith("do_")}
        return {name: (inspect.getdoc(one) or "").splitlines()[0].removesuffix(".") for name, one in found.items()}

    def words(self, order: str) -> Iterable[str]:
        """Return completions for the argument of a command."""
        if order == "/mark":
            return get_args(Says)
        if order == "/view":
            return [str(number) for number in range(1, 1 + len(self.session.goals))]
        if order == "/open":
            places = [self.tabs.url, *self._places, *(step["observation"]["url"] for step in self._steps)]
            return list(dict.fromkeys(filter(None, places)))
        return ()

    def carry_out(self, line: str) -> None:
        """Carry out a line; errors are printed."""
        text = line.strip()
        if not text:
            return
        try:
            if not text.startswith("/"):
                self.play(text)
                return
            name, _, argument = text.partition(" ")
            order = getattr(self, f"do_{name[1:]}", None)
            if order is None:
                near = get_close_matches(name, self.all(), 1)
                raise CommandRefused(f"There is no {name}: " + (f"did you mean {near[0]}?" if near else "see /help."))
            interrupt = GoalInterrupt()  # interrupting the opening of an address would close the tabs
            try:
                with interrupt.listening():
                    order(argument.strip())
            finally:
                self._end_if(interrupt.terminated)
        except KeyboardInterrupt:
            self._refuse("Interrupted.")
        except (CommandRefused, ActionError, EnvError, EpisodeError, OSError) as error:
            self._refuse(str(error))

    def play(self, goal: str, continues: Path | None = None) -> None:
        """Play a goal, and print its result."""
        past = list(self._steps) if continues is not None else []
        state = State(goal, self._most_steps)
        view = View(state) if self._as_json else Lines(state, console)
        if lost := self.tabs.mend():
            self._remark(lost)
        self.tabs.begin(goal, self._most_steps)
        before = {"goal": continues.name, "steps": len(past)} if continues is not None else None
        folder = self.session.next_goal
        writer = EpisodeWriter(
            folder,
            {**self._about, "goal": goal, "url": self.tabs.url or None, "versions": versions(), "continues": before},
        )
        one = Goal(self._agent, self.tabs, self.reader, writer, view, self._limits, past)
        result = one.play()
        self._places = [*(self._places if past else []), *one.places[: result.length]]
        self._steps = [*past, *Episode(folder).steps()]
        self._end_if(one.interrupt.terminated)
        self.keep()
        self._say(folder, result, state, interrupted=one.interrupt.seen)

    def keep(self) -> None:
        """Save the browser's address and state and the last goal's remaining steps, so that it can be continued."""
        goals = self.session.goals
        last = {"goal": goals[-1].name, "steps": len(self._steps), "places": self._places} if goals else {}
        self.session.note(address=self.tabs.address() or self.session.about["address"], last=last)
        if self.tabs.keeps_state and (state := self.tabs.storage_state()) is not None:
            self.session.note_state(state)

    def do_open(self, url: str) -> None:
        """Open an address: /open https://example.org."""
        if not url:
            raise CommandRefused("Give an address: /open https://example.org")
        self.tabs.open(url)
        self._shown()

    def do_back(self, count: str) -> None:
        """Take back the last step, or several (/back 2), by opening the page before it. Sent forms stay sent."""
        number = _number(count or "1")
        if number > len(self._places):
            raise CommandRefused(f"Steps of the last goal that can be taken back: {len(self._places)}.")
        place = self._places[-number]
        if not place:
            raise CommandRefused("The page before that step can't be opened again.")
        self.tabs.open(place)
        back = [str(step["actions"][0]["action"]) for step in self._steps[-number:]]
        del self._places[-number:], self._steps[-number:]
        self.keep()
        self._remark(f"Taken back: {', '.join(back)}.")
        self._shown()

    def do_continue(self, words: str) -> None:
        """Continue the last goal, even of an earlier day; further words are appended to it."""
        goals = self.session.goals
        if not goals:
            raise CommandRefused("There is no goal to continue.")
        goal = Episode(goals[-1]).meta["goal"]
        answers = [each for step in self._steps for each in step["questions"] if each["answer"]]
        told = [f'(You asked "{each["question"]}"; the answer was "{each["answer"]}".)' for each in answers]
        self.play(" ".join([goal, *(one for one in told if one not in goal), *filter(None, [words])]), goals[-1])

    def do_page(self, _: str) -> None:
        """Show the page as the agent sees it."""
        seen = self.tabs.look()
        self._print(seen["dom"], url=seen["url"], title=seen["title"], dom=seen["dom"])

    def do_find(self, words: str) -> None:
        """Show the first lines of the whole page that contain a text: /find order 17."""
        if not words:
            raise CommandRefused("Give a text to find: /find order 17")
        self.tabs.look()
        found = runtime().run(self.tabs.env.find(words))
        rows = [{"id": one.id, "line": one.line} for one in found]
        self._print(as_outline(found, words), found=rows)

    def do_screenshot(self, path: str) -> None:
        """Write a screenshot: /screenshot page.png."""
        from PIL import Image

        if not path:
            raise CommandRefused("Give a file: /screenshot page.png")
        Image.fromarray(self.tabs.look()["screenshot"]).save(Path(path).expanduser(), format="PNG")
        self._print(f"Written: {path}", screenshot=path)

    def do_goals(self, _: str) -> None:
        """List the goals of this session."""
        metas = [Episode(folder).meta for folder in self.session.goals]
        rows = [
            {
                "goal": meta["goal"],
                "outcome": _ended(
                    meta["outcome"],
                    claimed=claims((meta["final"] or {}).get("last_action", "")),
                    interrupted=meta["outcome_detail"] == INTERRUPTED,
                ),
            }
            for meta in metas
        ]
        lines = [f"{number}. {row['outcome']}: {row['goal']}" for number, row in enumerate(rows, 1)]
        self._print("\n".join(lines) or "There are no goals yet.", goals=rows)

    def do_view(self, number: str) -> None:
        """Show the steps of the last goal, or of another one: /view 2."""
        from selfsurf.scripts.view import main

        folder = self._goal(number)
        if self._as_json:
            episode = Episode(folder)
            self._print("", episode=episode.meta, steps=list(episode.steps()))
        else:
            main(folder)

    def do_mark(self, words: str) -> None:
        """Record whether the last goal was reached: /mark solved, failed or unknown, and the reason."""
        says, _, why = words.partition(" ")
        if says not in get_args(Says):
            raise CommandRefused("Say whether the goal was reached: /mark solved, failed or unknown")
        mark_episode(self._goal(""), Mark(says, "person", why.strip()))  # type: ignore[arg-type]
        self._print(f"Marked: {says}", marked=says)

    def do_steps(self, number: str) -> None:
        """Set the step limit of later goals: /steps 20."""
        self._most_steps = _number(number)
        self._print(f"Goals end after {self._most_steps} steps.", steps=self._most_steps)

    def do_help(self, _: str) -> None:
        """Show this list."""
        width = max(map(len, self.all()))
        lines = [f"{name:<{width}}  {what}" for name, what in self.all().items()]
        self._print("\n".join(["Type a goal, or one of these commands:", *lines]), orders=self.all())

    def do_quit(self, _: str) -> None:
        """Leave, as Ctrl-D does."""
        self.over = True

    def _end_if(self, terminated: bool) -> None:
        self.terminated = self.terminated or terminated
        self.over = self.over or self.terminated

    def _goal(self, number: str) -> Path:
        goals = self.session.goals
        at = _number(number) if number else len(goals)
        if not 1 <= at <= len(goals):
            raise CommandRefused("There is no such goal; /goals lists them.")
        return goals[at - 1]

    def _shown(self) -> None:
        seen = self.tabs.seen
        assert seen is not None
        self._print(printable(f'{seen["url"]} "{seen["title"]}"'), url=seen["url"], title=seen["title"])

    def _say(self, folder: Path, result: Result, state: State, *, interrupted: bool) -> None:
        """Print the result of a goal."""
        said = "interrupted" if interrupted else result.ending
        finished = said == "done"
        error = "" if finished or interrupted else result.detail
        if self._as_json:
            print(json.dumps({
                "goal": state.goal, "outcome": said, "answer": result.answer, "error": error, "steps": result.length,
                "prompt_tokens": state.prompt_tokens, "sampled_tokens": state.sampled_tokens,
                "cost": state.cost or None,
                "seconds": round(state.seconds, 3), "episode": str(folder),
            }), flush=True)  # fmt: skip
            return
        if error:
            show_error(error, result.traceback)
        answer = result.answer if finished else ""
        print(f"{said}. {printable(answer)}".strip(), flush=True)
        console.print(f"Used: {spent(state)}", style="dim", highlight=False)
        if not finished:
            console.print("Type /continue to resume this goal.", style="dim")

    def _print(self, text: str, **data: Any) -> None:
        if self._as_json:
            print(json.dumps(data), flush=True)
        else:
            Console(width=None).print(text, markup=False, highlight=False, soft_wrap=True)

    def _remark(self, text: str) -> None:
        if not self._as_json:
            console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _refuse(self, why: str) -> None:
        print(json.dumps({"error": why}), flush=True) if self._as_json else show_error(why)


def _ended(outcome: str, *, claimed: bool, interrupted: bool) -> str:
    """Return the outcome of a goal in words; no task judges it."""
    return "interrupted" if interrupted else "done" if outcome == "stopped" and claimed else outcome


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise CommandRefused(f"{text or 'Nothing'} is not a whole number of 1 or more.")
    return int(text)
