"""`selfsurf answer`: list the runs that wait for a person, and answer one of them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from selfsurf.agents.play.resume_point import end_of
from selfsurf.browser_env import Outcome
from selfsurf.browser_env.record.episode import Episode, EpisodeError, EpisodeWriter
from selfsurf.browser_env.safety.terminal import printable
from selfsurf.browser_env.text import first_line
from selfsurf.scripts.terminal.arguments import Json
from selfsurf.scripts.terminal.attempt_log import attempt_log
from selfsurf.scripts.waiting.kept import WaitingRun, kept_runs
from selfsurf.scripts.waiting.person import with_hint
from selfsurf.scripts.waiting.web import answer_on_page

LOG = "answer.log"
"""Name of the log file in a run's folder, written while the run continues in the background."""

PATIENCE = 30.0
"""Seconds that a run's process gets to end before `--stop` fails."""


def main(
    run: Annotated[
        Path | None, typer.Argument(help="Folder of the run. If omitted, the runs in runs/ are listed.")
    ] = None,
    text: Annotated[str, typer.Argument(help="The answer. If omitted, the question is shown.")] = "",
    web: Annotated[
        bool, typer.Option("--web", help="Take the answer from a web page, and print the page's address.")
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the run as stopped, and close its browser.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="If the process of the run has ended, continue the run in the background.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Answer a run that waits for a person (`selfsurf run --wait`).

    If the run's process is alive, the run continues there. If it was killed, the run continues here, in the browser
    that was left open, and ends as `selfsurf run` does; with --detach, in the background. A run that was killed while
    it wasn't waiting continues the same way, without an answer. An action that may have been carried out already is
    never sent again.
    """
    if run is None:
        return _list(as_json=as_json)
    kept = WaitingRun(run)
    try:
        episode = Episode(run)
    except EpisodeError as error:
        raise typer.BadParameter(str(error)) from None
    if not kept.there:
        raise typer.BadParameter(f"{run} is not waiting: it has ended, or was started without --wait.")
    here = kept.hold()
    if stop and not here:
        if not kept.stop(PATIENCE):
            raise typer.BadParameter(
                f"The process of the run has not ended within {PATIENCE:.0f} s. Kill it, then repeat the command."
            )
        here, episode = True, Episode(run)
    if here and (stop or episode.meta["ended"] is not None or end_of(episode)):
        return _end(kept, episode, as_json=as_json)
    question = kept.question
    if question is not None:
        if web and not text:
            text = answer_on_page(question)
            here = here or (kept.there and kept.hold())  # the run's process may have ended while the page was open
            now = kept.question if kept.there else None
            if now != question:
                kept.let_go()
                _say("The run no longer asks this question. Your answer was not used.", as_json, waiting=_public(now))
                return 1
        if here and text:  # saved first, in case this process is killed before the answer is used
            kept.bring_instead(question, text)
        elif here:
            text = kept.brought(question) or ""
    if question is not None and not text:
        kept.let_go()
        return _show(run, question, here=here, as_json=as_json)
    if not here:
        if question is None:
            _say(f"{run} is working and has no open question.", as_json, waiting=None)
            return 1
        if not kept.bring(question, text):
            _say("The question has already been answered.", as_json, waiting=None)
            return 1
        _say("Answered; the run goes on.", as_json, answered=text)
        return 0
    if question is None and text:
        print("The run had no open question and continues without your answer.", file=sys.stderr)
    if detach:
        return _detach(kept, as_json=as_json)
    print("The process of the run had ended. The run continues in this process.", file=sys.stderr)
    from selfsurf.scripts.run import Settings, carry_out

    try:
        settings = Settings.model_validate_json(kept.settings).model_copy(update={"as_json": as_json})
    except (OSError, ValueError) as error:
        kept.let_go()
        raise typer.BadParameter(
            f"{kept.running}, which the run needs, is damaged: {first_line(error)}. End the run: selfsurf answer {run} "
            "--stop"
        ) from None
    return carry_out(settings, kept, text if question is not None else None)


def _detach(kept: WaitingRun, *, as_json: bool) -> int:
    """Continue a run in a background process, with the saved answer if there is one."""
    kept.let_go()
    log = kept.folder / LOG
    with log.open("ab") as output:
        command = [sys.executable, "-m", "selfsurf.scripts.cli", "answer", str(kept.folder)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    _say(
        f"The run continues in process {process.pid}, which writes to {log}.",
        as_json,
        process=process.pid,
        log=str(log),
    )
    return 0


def _list(*, as_json: bool) -> int:
    """Print the runs that have not ended."""
    rows: list[dict[str, Any]] = []
    for kept in kept_runs(Path("runs")):
        try:
            question = kept.question
        except (EpisodeError, ValueError):  # the run is just being created
            continue
        if here := kept.hold():
            kept.let_go()
        rows.append({"run": str(kept.folder), "alive": not here, "waiting": _public(question)})
    if as_json:
        print(json.dumps(rows))
    elif not rows:
        print("No run in runs/ is waiting.")
    for row in [] if as_json else rows:
        state = printable(row["waiting"]["text"]) if row["waiting"] else "at work" if row["alive"] else "was cut off"
        print(f"{row['run']}: {state}")
    return 0


def _show(run: Path, question: dict[str, Any], *, here: bool, as_json: bool) -> int:
    text = f"{with_hint(question)}\nAnswer with: selfsurf answer {run} TEXT"
    _say(text, as_json, waiting=_public(question), alive=not here)
    return 0


def _end(kept: WaitingRun, episode: Episode, *, as_json: bool) -> int:
    """Finish the episode of a run whose process is gone, if necessary, and clean up the run's browser and files."""
    writer = EpisodeWriter.reopen(kept.folder, kept.journal()) if episode.meta["ended"] is None else None
    last = end_of(episode)
    if writer is not None:
        if last is not None:
            trainable = Outcome(last["outcome"]).trainable
            judged = _judged(last)
            writer.finish(last["outcome"], trainable=trainable, detail=last["outcome_detail"], judged=judged)
        else:
            asked = kept.question
            detail = f"Ended by the user, who was asked: {asked['text']}" if asked else "Ended by the user."
            writer.finish("stopped", trainable=False, detail=detail)
    outcome = Episode(kept.folder).meta["outcome"]
    claimed = last is not None and last["actions"][0].get("action") == "finish"
    _close_log(kept, "done" if outcome == "stopped" and claimed else outcome)
    kept.clean()
    _say(f"{outcome}.\nEpisode: {kept.folder}", as_json, outcome=outcome, episode=str(kept.folder))
    return 0


def _close_log(kept: WaitingRun, decision: str) -> None:
    """Write the summary of the attempt log that the run's process began."""
    from selfsurf.scripts.run import Settings

    meta = Episode(kept.folder).meta
    with suppress(OSError, ValueError):  # the saved settings of the run are damaged
        log_settings = Settings.model_validate_json(kept.settings).log_settings
        if meta["traceId"] and (log := attempt_log(log_settings, meta["traceId"])):
            log.close(decision, meta["outcome_detail"] or "")


def _judged(last: dict[str, Any]) -> bool:
    """Whether the specification judged the episode at its last step; a run that may wait has no other judge."""
    found = [one["found"] for one in last["score"].get("criteria", ())]
    return "missed" in found or ("met" in found and "unknown" not in found)


def _public(question: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if question is None else {name: question[name] for name in ("step", "kind", "text")}


def _say(text: str, as_json: bool, **data: Any) -> None:
    print(json.dumps(data) if as_json else text)
