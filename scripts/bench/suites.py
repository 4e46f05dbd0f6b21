"""`selfsurf bench suites`: list the suites that come with the package."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from selfsurf.scripts.terminal.arguments import Json


def main(as_json: Json = False) -> None:
    """List the suites that come with the package, with their splits and groups."""
    from selfsurf.envs_registry.suites import load_suite, suite_names

    suites: list[dict[str, Any]] = []
    for name in suite_names():
        suite = load_suite(name)
        suites.append(
            {
                "name": name, "description": suite.description, "tasks": len(suite.tasks), "seeds": list(suite.seeds),
                "splits": dict(Counter(task.split for task in suite.tasks if task.split)),
                "groups": dict(Counter(group for task in suite.tasks for group in task.groups)),
            }
        )  # fmt: skip
    if as_json:
        print(json.dumps(suites, indent=1))
        return
    for each in suites:
        print(f"{each['name']}: {each['description']}")
        for kind in ("splits", "groups"):
            print(f"  {kind}: " + ", ".join(f"{name} {count}" for name, count in each[kind].items()))
