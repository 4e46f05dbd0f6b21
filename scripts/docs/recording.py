"""Generator of docs/agent.svg, a recording of an agent on an unseen seed before and after training.

Its input is two episodes, the second one with the adapter from `scripts/demo.sh`:

    selfsurf run --task MiniWoB/click-option-v0 --seed 2000001 --max-steps 3 --set guards=false --name before
    (and once more with --adapter and --name after)

A frame shows the page with marks, the outline that the agent reads, and the agent's action.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import typer
from PIL import Image

from selfsurf.browser_env.observe.marks import draw as draw_marks
from selfsurf.browser_env.record.episode import Episode, EpisodeError
from selfsurf.scripts.docs.pages import ROOT

SECONDS = 2.2
"""Seconds that a frame is shown."""

SIZE, PAGE = (820, 440), (160, 210)
"""Sizes in pixels of the recording, and of the screenshot's visible part before doubling."""

Frame: TypeAlias = tuple[Any, list[tuple[str, str]]]
"""Picture of a frame, with its lines of text and their colours."""


def read(title: str, folder: Path) -> Iterator[Frame]:
    """Yield a frame for each step of a recorded episode, and one for its end."""
    episode = Episode(folder)
    top = [(title, "#ffffff"), (f"goal: {episode.meta['goal']}", "#8fd0ff")]
    for step in episode.steps():
        seen = step["observation"]
        outline = [(line, "#9aa4b5") for line in seen["dom"].splitlines()]
        picture = draw_marks(_pixels(folder / step["screenshot"]), seen["elements"])
        yield picture, [*top, ("", ""), *outline, ("", ""), (json.dumps(step["actions"][0]), "#ffd479")]
    colour = "#7ee08a" if episode.meta["outcome"] == "solved" else "#ff8f8f"
    end = _pixels(folder / episode.meta["final_screenshot"])
    yield end, [*top, ("", ""), (episode.meta["outcome"], colour)]


def _pixels(path: Path) -> Any:
    return np.asarray(Image.open(path).convert("RGB"))


def draw(frames: list[Frame]) -> str:
    """Return the frames as an animated SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE[0]} {SIZE[1]}" font-family="monospace">',
        f"<style>g{{opacity:0;animation:show {SECONDS * len(frames):.1f}s step-end infinite}}"
        f"@keyframes show{{0%{{opacity:1}}{100 / len(frames):.3f}%{{opacity:0}}}}</style>",
        f'<rect width="{SIZE[0]}" height="{SIZE[1]}" rx="8" fill="#1e2430"/>',
    ]
    for number, (picture, text) in enumerate(frames):
        file = io.BytesIO()
        Image.fromarray(picture[: PAGE[1], : PAGE[0]]).quantize(64).save(file, "PNG", optimize=True)
        parts.append(
            f'<g style="animation-delay:{SECONDS * (number - len(frames)) if number else 0:.1f}s">'
            f'<image x="10" y="10" width="{2 * PAGE[0]}" height="{2 * PAGE[1]}" '
            f'href="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"/>'
        )
        parts += [
            f'<text x="{2 * PAGE[0] + 30}" y="{32 + 23 * row}" fill="{colour}">{escape(line)}</text>'
            for row, (line, colour) in enumerate(text)
        ]
        parts.append("</g>")
    return "".join(parts) + "</svg>\n"


def main(before: Path = Path("runs/before"), after: Path = Path("runs/after")) -> None:
    """Draw the recording from two episodes: one before training, one after it."""
    try:
        frames = [*read("SmolLM2-135M, before training", before), *read("after 28 steps of selfsurf train", after)]
    except EpisodeError as error:
        typer.echo(f"{error}\n\n{__doc__}", err=True)
        raise typer.Exit(1) from None
    (ROOT / "docs" / "agent.svg").write_text(draw(frames), encoding="utf8")


if __name__ == "__main__":
    typer.run(main)
