"""Write replies of the real small model, unconstrained and at high temperature, for the parser's corpus.

    python tests/agents/corpus/generate.py DRAFT

Writes `prompts.json` next to this file (each prompt and its page's element ids, by name) and to DRAFT one JSON line a
reply, without an expected action: that is decided by reading the reply, and the line then goes into `model.jsonl`.
The replies depend on the version of torch and on the machine; the corpus keeps those that were read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TASKS = ("click-link", "click-button", "enter-text", "login-user", "choose-list", "click-checkboxes", "focus-text-2")
TEMPERATURES = (0.8, 1.0, 1.3, 1.6, 2.0)
PREFILLS = ("", '{"')
REPLIES = 2
"""For each prompt, temperature and prefill."""

HINTS: dict[str, dict[str, Any]] = {
    "form": {"action": "fill", "id": 3, "text": "Ada"},
    "shop": {"action": "click", "id": 21},
    "click-link": {"action": "finish", "answer": "done"},
}
"""Demonstrations: these prompts are also written in the teacher's form."""


def pages() -> dict[str, Any]:
    """Observations by name: made pages as in `conftest.py`, and the first ones of real MiniWoB++ tasks."""
    import gymnasium as gym

    import selfsurf  # noqa: F401  (registers the ids)
    from tests.agents.conftest import _element, _observation

    found: dict[str, Any] = {
        "form": _observation(
            'Enter "Ada" into the text field and press Submit.',
            [
                _element(3, "textbox", "Name"),
                _element(5, "combobox", "Colour", options=("Red", 'Blue "dark"', "Grün")),
                _element(7, "button", "Submit"),
                _element(12, "button", "Cancel"),
                _element(71, "link", "Help"),
            ],
        ),
        "shop": _observation(
            "Put the blue lamp into the basket and say what it costs.",
            [
                _element(2, "searchbox", "Search the shop", tag="input"),
                _element(20, "link", "Red lamp"),
                _element(21, "link", "Blue lamp"),
                _element(33, "button", "Add to basket"),
                _element(34, "checkbox", "Gift wrap", states=("checked",)),
            ],
            last_error="There is no element 22 on the page.",
        ),
    }
    for task in TASKS:
        env = gym.make(f"MiniWoB/{task}-v0", screenshot=False)
        found[task] = env.reset(seed=1)[0]
        env.close()
    return found


def main(draft: Path) -> None:
    """Ask the model about every page."""
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.agents.prompt.prompt import with_demonstration
    from tests.agents.prompt_cases import build

    history = ['{"click":4} button "Back"', "an unreadable reply"]
    prompts: dict[str, Any] = {}
    conversations: dict[str, Any] = {}
    for name, obs in pages().items():
        built = build(obs, spelled=True, history=history if name in ("shop", "enter-text") else ())
        variants = {name: built.messages}
        if name in HINTS:
            variants[f"{name}-told"] = with_demonstration(built.messages, {"action": HINTS[name]})
        for variant, messages in variants.items():
            conversations[variant] = messages
            prompts[variant] = {
                "prompt": "\n".join(message.text for message in messages),
                "ids": sorted(element["id"] for element in obs["elements"]),
            }
    here = Path(__file__).parent
    (here / "prompts.json").write_text(json.dumps(prompts, ensure_ascii=False, indent=1) + "\n", encoding="utf8")
    policy = TransformersPolicy("smollm2")
    names = list(conversations)
    with draft.open("w", encoding="utf8") as file:
        seed = 0
        for _ in range(REPLIES):
            for temperature in TEMPERATURES:
                for prefill in PREFILLS:
                    seed += 1000
                    replies = policy.complete(
                        [conversations[name] for name in names],
                        prefill=prefill,
                        temperature=temperature,
                        max_new_tokens=56,
                        seed=seed,
                    )
                    for row, (name, reply) in enumerate(zip(names, replies, strict=True)):
                        source = f"model SmolLM2-135M-Instruct temperature {temperature} seed {seed} row {row}"
                        file.write(
                            json.dumps(
                                {"text": reply.text, "prompt": name, "source": source, "prefill": prefill},
                                ensure_ascii=False,
                            )
                            + "\n"
                        )
                    file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
