"""Write `mutations.jsonl`: valid replies damaged in known ways, so that the expected action follows from the damage.

python tests/agents/corpus/mutate.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

IDS = [3, 4, 5, 41]
CLICK = {"action": "click", "id": 4}
FILL = {"action": "fill", "id": 3, "text": "Ada L."}
SELECT = {"action": "select", "id": 5, "options": ["Red"]}
VALID: dict[str, tuple[str, dict[str, Any]]] = {
    "compact click": ('{"click":4}', CLICK),
    "full click": ('{"action": "click", "id": 4}', CLICK),
    "compact fill": ('{"fill":3,"text":"Ada L."}', FILL),
    "full fill": ('{"action": "fill", "id": 3, "text": "Ada L."}', FILL),
    "full select": ('{"action": "select", "id": 5, "options": ["Red"]}', SELECT),
}
REASONED = '{"action": "click", "id": 4, "reason": "the only one that says \\"Go\\" on it"}'
FULL_WIDTH = str.maketrans("{}:,", "｛｝：，")


def _line(text: str, action: dict[str, Any] | None, how: str, source: str) -> dict[str, Any]:
    return {"text": text, "ids": IDS, "action": action, "how": how, "source": f"mutation of {source}"}


def _smart(text: str) -> str:
    parts = text.split('"')
    return "".join(part + ("“" if index % 2 == 0 else "”") for index, part in enumerate(parts[:-1])) + parts[-1]


def mutations() -> list[dict[str, Any]]:
    """All lines."""
    lines = []
    for name, (text, action) in VALID.items():
        kept = [
            (text.replace('"', "'"), "repaired", "single quotes"),
            (_smart(text), "repaired", "smart quotes"),
            (text[:-1] + ",}", "repaired", "trailing comma"),
            (text.translate(FULL_WIDTH), "repaired", "full-width marks"),
            (text.replace("}", " // the right one\n}"), "repaired", "comment"),
            (f"```json\n{text}\n```", "json", "fenced"),
            (f"```\n{text}", "json", "fence never closed"),
            (f"Sure, here it is:\n\n{text}\n\nLet me know if that works!", "json", "prose around"),
            (f"[{text}]", "json", "in an array"),
            (f'<think>Perhaps {{"click":41}}? No.</think>\n{text}', "json", "after thinking"),
            (f'Perhaps {{"click":41}}? No.</think>{text}', "json", "thinking opened in the prompt"),
            (text.upper().replace("ADA L.", "Ada L.").replace("RED", "Red"), "json", "upper case"),
            (json.dumps(text), "json", "escaped in a string"),
            (f"\x00\ufeff {text}\x00", "json", "NUL and byte order mark around"),
            (f'{{"{text}', "json", "prefill repeated"),
            (f'{{"thought": "41 or 4?", "response": {text}}}', "json", "nested beside a thought"),
            (text + '{"click":41}', "json", "followed by another"),
        ]
        lines += [_line(mutated, action, how, f"{name}: {what}") for mutated, how, what in kept]
        unended = text[:-1]
        lost = [
            (f"<think>{text}", "thinking never closed"),
            (f"I will not do {text}", "negated"),
            (text.replace(text[text.index(str(action["id"]))], "99"), "an element that is not there"),
        ]
        if unended[-1].isdigit():
            lost.append((unended, "cut behind the number"))
        else:
            lines.append(_line(unended, action, "repaired", f"{name}: closing brace missing"))
        lines += [_line(mutated, None, "none", f"{name}: {what}") for mutated, what in lost]
    full = VALID["full fill"][0]
    lines += [_line(full[:cut], None, "none", f"full fill: cut at {cut}") for cut in range(2, len(full) - 1, 5)]
    starts = range(REASONED.index("4") + 2, len(REASONED), 9)
    lines += [_line(REASONED[:cut], CLICK, "repaired", f"full click with a reason: cut at {cut}") for cut in starts]
    return lines


if __name__ == "__main__":
    with (Path(__file__).parent / "mutations.jsonl").open("w", encoding="utf8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in mutations())
