"""`selfsurf view`: a readable replay of an episode in the terminal."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from selfsurf.agents.play.job import claims
from selfsurf.browser_env.record.episode import Episode, EpisodeError
from selfsurf.browser_env.record.verdict import Mark, Verdict, marks_of, verdict_of
from selfsurf.browser_env.text import one_line, visible_lines
from selfsurf.scripts.terminal.arguments import Json
from selfsurf.scripts.terminal.console import tail

COLOURS = {"solved": "green", "failed": "red", "env_error": "magenta", "timeout": "yellow"}


def main(
    episode: Annotated[Path, typer.Argument(help="Folder of an episode.")],
    full: Annotated[bool, typer.Option(help="Show pages and tracebacks in full.")] = False,
    as_json: Json = False,
) -> int:
    """Print an episode step by step: page, action and result. Exit code 1: the episode is damaged."""
    try:
        found = Episode(episode.parent if episode.name == "episode.json" else episode)
        steps, verdict, marks = list(found.steps()), verdict_of(found), marks_of(found)
    except EpisodeError as error:
        text = json.dumps({"error": str(error)}) if as_json else f"{error}{_near(episode)}"
        print(text, file=sys.stdout if as_json else sys.stderr)
        return 1
    damages = found.damage() if (found.folder / "manifest.json").exists() else []
    if as_json:
        said = None if verdict is None else asdict(verdict)
        print(json.dumps({"episode": found.meta, "steps": steps, "damage": damages, "verdict": said}, indent=1))
        return int(bool(damages))
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_head(found.meta))
    for step in steps:
        console.print(_step(step, full))
    end = _end(found.meta, len(steps), full, verdict, marks, going_on=found.being_written)
    console.print(end, soft_wrap=True)
    for damage in damages:
        console.print(f"[red]damage[/]   {_shown(damage)}", soft_wrap=True)
    return int(bool(damages))


def _shown(text: str) -> str:
    """Return untrusted text of an episode as markup without control characters."""
    return escape(visible_lines(text))


def _near(path: Path) -> str:
    """Return up to five episodes below a folder that is not an episode itself, as a hint."""
    below = (each.parent for each in sorted(path.glob("*/**/episode.json")))
    found = [str(each) for _, each in zip(range(5), below, strict=False)]
    return "\nEpisodes below this folder, for example:\n  " + "\n  ".join(found) if found else ""


def _head(meta: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    for key in ("episode_id", "env_id", "seed", "goal", "agent", "model", "adapter", "tags", "traceId"):
        if meta[key] not in (None, "", []):
            value = ", ".join(meta[key]) if key == "tags" else str(meta[key])
            table.add_row(f"[bold]{key.replace('_', ' ')}[/]", _shown(value))
    return table


def _step(step: dict[str, Any], full: bool, lines: int = 15) -> Panel:
    page = step["observation"].get("dom", "").splitlines()
    shown = page if full else page[:lines]
    body = [_shown(line) for line in shown]
    if len(page) > len(shown):
        body.append(f"[dim]... {len(page) - len(shown)} more lines (--full)[/]")
    body.append("")

    def say(label: str, style: str, text: str, more: str = "") -> None:
        body.append(f"[{style}]{label:<8}[/] {_shown(text)}" + f"  [dim]{_shown(more)}[/]" * bool(more))

    for action in step["actions"]:
        text = action["unreadable"] if "unreadable" in action else json.dumps(action, ensure_ascii=False)
        say("action", "bold", text)
    for completion in step["completions"]:
        if completion["logprobs"]:
            total = f"{len(completion['token_ids'])} tokens, log-probability {sum(completion['logprobs']):.2f}"
            say("sampled", "bold", completion["text"], total)
        if completion["error"]:
            say("reply", "yellow", completion["error"])
    if step["decision"] and step["decision"]["guard"]:
        say("guard", "yellow", step["decision"]["guard"])
    if step["decision"] and step["decision"].get("left"):
        say("left", "yellow", step["decision"]["left"])
    if expert := step["privileged"]:
        say("expert", "dim", json.dumps(expert["action"]), expert["reason"])
    for question in step["questions"]:
        answer = "nobody answered" if question["answer"] is None else question["answer"]
        say("asked", "cyan", question["question"], answer)
    if step["risk"]:
        say("risk", "yellow", step["risk"]["why"], step["risk"].get("confirmed", ""))
    if step["error"]:
        say("error", "red", step["error"])
    for event in step["events"]:
        say("event", "cyan", event)
    timing = step["timing"]
    colour = COLOURS.get(step["outcome"], "blue")
    end = f"reward {step['reward']:g}, [{colour}]{_shown(step['outcome'])}[/], {timing.get('total', 0):.0f} ms"
    return Panel(
        "\n".join(body), title=f"step {step['step']}", subtitle=end, title_align="left", subtitle_align="right"
    )


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


def _end(
    meta: dict[str, Any], steps: int, full: bool, verdict: Verdict | None, marks: list[Mark], *, going_on: bool
) -> str:
    colour = COLOURS.get(meta["outcome"], "blue")
    totals = meta["totals"]
    done = meta["outcome"] == "stopped" and claims((meta["final"] or {}).get("last_action", ""))
    outcome = "the agent says that it is done" if done else meta["outcome"]
    text = f"[{colour} bold]{_shown(outcome)}[/] after {_count(totals.get('steps', steps))}"
    if totals.get("judged", True):
        text += f", reward {totals.get('reward', 0):g}"
    elif verdict is None:
        text += "; nobody has judged the episode (selfsurf judge, selfsurf mark)" * done
    teaches = done or (verdict is not None and verdict.solved)
    if meta["outcome"] == "env_error":
        text += "; not the agent's doing"
    elif meta["trainable"] is False:
        text += "; the agent's own error" * bool(meta["traceback"])
    if not teaches and (meta["outcome"] == "env_error" or meta["trainable"] is False):
        text += "; not used for training"
    if meta["outcome"] == "running":
        text += "; it goes on" if going_on else "; it was cut off"
    if marks:
        mark = next((one for one in reversed(marks) if verdict is not None and one.when == verdict.when), None)
        who = f" ({mark.who})" if mark is not None and mark.who else ""
        said = f"{verdict.says} by {verdict.by}{who}: {verdict.why}" if verdict is not None else "unknown"
        text += f"\n[bold]verdict[/]  {_shown(one_line(said).removesuffix(':'))}"
    if meta["outcome_detail"]:
        text += f"\n[red]reason[/]   {_shown(meta['outcome_detail'])}"
    if meta["traceback"]:
        text += f"\n[dim]{_shown(meta['traceback'].rstrip() if full else tail(meta['traceback']))}[/]"
    return text
