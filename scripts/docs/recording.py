"""Record docs/agent.svg: an agent before and after training, on a page whose seed it was not trained on.

It is played when this is called, with the adapter of `scripts/demo.sh`. A frame shows the page with marks, the outline
that the agent reads, and what it does.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import typer
from PIL import Image

from selfsurf import agents
from selfsurf.scripts.docs.pages import ROOT

SECONDS = 2.2
"""That a frame is shown."""

SIZE, PAGE = (820, 440), (160, 210)
"""Of the recording, and of what is shown of the screenshot, which is enlarged twice."""

Frame: TypeAlias = tuple[Any, list[tuple[str, str]]]
"""A picture, and lines of text with their colours."""


def play(title: str, env_id: str, seed: int, adapter: Path | None) -> Iterator[Frame]:
    """Play an episode and yield a frame for each step, and one for the end."""
    agent = agents.make(
        "transformers", model="smollm2", adapter=adapter, actions=("click", "fill", "select"), max_prompt_tokens=1024,
        guards=False,
    )  # fmt: skip
    env = gymnasium.make(env_id, max_episode_steps=3)
    obs, info = env.reset(seed=seed)
    agent.reset(obs["goal"])
    while info["outcome"] == "running":
        picture, text = env.get_wrapper_attr("marked")(), [(title, "#ffffff"), (f"goal: {obs['goal']}", "#8fd0ff")]
        text += [("", ""), *((line, "#9aa4b5") for line in obs["dom"].splitlines())]
        obs, _, _, _, info = env.step(agent.act(obs))
        yield picture, [*text, ("", ""), (obs["last_action"], "#ffd479")]
    colour = "#7ee08a" if info["outcome"] == "solved" else "#ff8f8f"
    yield obs["screenshot"], [*text[:2], ("", ""), (info["outcome"], colour)]
    env.close()


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


def main(adapter: Path = Path("runs/demo/training/adapter"), seed: int = 2_000_001) -> None:
    """Play a task before and after training, and write the recording."""
    task = "MiniWoB/click-option-v0"
    frames = [*play("SmolLM2-135M, before training", task, seed, None)]
    frames += play("after 28 steps of selfsurf train", task, seed, adapter)
    (ROOT / "docs" / "agent.svg").write_text(draw(frames), encoding="utf8")


if __name__ == "__main__":
    typer.run(main)
