"""Record docs/recording.svg: an agent before and after training on a page that it was not trained on.

It is the real thing, played when this is called; frame by frame the screenshot with marks, the page as the agent reads
it, and what it does.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import typer
from PIL import Image

from selfsurf import agents
from selfsurf.browser_env.observation import Observation
from selfsurf.scripts.docs.pages import ROOT

SECONDS = 2.2
"""That a frame is shown."""
LINES = 11
"""Of the outline that are shown."""
SCALE = 2
"""Of the screenshot."""
TEXT = 470
"""Width of the text, in pixels."""


@dataclass
class Frame:
    """A moment of an episode."""

    title: str
    picture: Any
    obs: Observation
    action: str = ""
    end: str = ""


def play(title: str, env_id: str, seed: int, adapter: Path | None) -> Iterator[Frame]:
    """Play an episode and yield each observation with the action that follows, and the end."""
    agent = agents.make(
        "transformers", model="smollm2", adapter=adapter, actions=("click", "fill", "select"), max_prompt_tokens=1024,
        guards=False,
    )  # fmt: skip
    env = gymnasium.make(env_id, max_episode_steps=3)
    obs, info = env.reset(seed=seed)
    agent.reset(obs["goal"])
    while info["outcome"] == "running":
        frame = Frame(title, env.unwrapped.marked(), obs)  # type: ignore[attr-defined]
        obs, _, _, _, info = env.step(agent.act(obs))
        frame.action = obs["last_action"]
        yield frame
    yield Frame(title, obs["screenshot"], obs, end=info["outcome"])
    env.close()


def draw(frames: list[Frame]) -> str:
    """Return the frames as an animated SVG."""
    height, width = (SCALE * side for side in frames[0].picture.shape[:2])
    full = (width + TEXT, max(height + 20, 330))
    shown = 100 / len(frames)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full[0]} {full[1]}" font-family="monospace" '
        f'font-size="13">'
        f"<style>g{{opacity:0;animation:show {SECONDS * len(frames):.1f}s step-end infinite}}"
        f"@keyframes show{{0%{{opacity:1}}{shown:.3f}%{{opacity:0}}}}text{{white-space:pre}}</style>"
        f'<rect width="{full[0]}" height="{full[1]}" rx="8" fill="#1e2430"/>'
    ]
    for i, frame in enumerate(frames):
        delay = SECONDS * (i - len(frames)) if i else 0
        parts.append(f'<g style="animation-delay:{delay:.1f}s">')
        picture = f'x="10" y="10" width="{width}" height="{height}" style="image-rendering:pixelated"'
        parts.append(f'<image {picture} href="data:image/png;base64,{_png(frame.picture)}"/>')
        parts += [_line(width + 30, 28 + 20 * row, text, colour) for row, (text, colour) in enumerate(_text(frame))]
        parts.append("</g>")
    return "".join(parts) + "</svg>\n"


def _text(frame: Frame) -> Iterator[tuple[str, str]]:
    """What stands beside the picture, line by line, with its colour."""
    yield frame.title, "#ffffff"
    yield f"goal: {frame.obs['goal']}", "#8fd0ff"
    yield "", "#ffffff"
    for line in frame.obs["dom"].splitlines()[:LINES]:
        yield line, "#9aa4b5"
    if frame.action:
        yield f"→ {frame.action}", "#ffd479"
    if frame.end:
        yield frame.end, "#7ee08a" if frame.end == "solved" else "#ff8f8f"


def _line(x: int, y: int, text: str, colour: str) -> str:
    most = (TEXT - 40) // 8
    text = text if len(text) <= most else text[: most - 1] + "…"
    return f'<text x="{x}" y="{y}" fill="{colour}">{escape(text)}</text>'


def _png(pixels: Any) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).quantize(64).save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def main(
    adapter: Annotated[Path, typer.Argument(help="The adapter of scripts/demo.sh.")] = Path(
        "runs/demo/training/adapter"
    ),
    task: str = "MiniWoB/click-option-v0",
    seed: int = 2_000_001,
) -> None:
    """Play the task before and after training, and write the recording."""
    frames = [
        *play("SmolLM2-135M, before training", task, seed, None),
        *play("after 28 steps of selfsurf train", task, seed, adapter),
    ]
    path = ROOT / "docs" / "recording.svg"
    path.write_text(draw(frames), encoding="utf8")
    print(path, path.stat().st_size, [frame.end for frame in frames if frame.end])


if __name__ == "__main__":
    typer.run(main)
