"""Posts of people, with a row of icons below each."""

from __future__ import annotations

import re
from typing import NamedTuple

from browser_env.actions import Action, Click, Wait
from browser_env.observation import Element, Observation
from tasks.miniwob.oracles.base import click, elements, oracle, quoted, same
from tasks.miniwob.oracles.outline import outline

ICONS = ("Reply", "Retweet", "Like", "Share")


class Post(NamedTuple):
    """A post: who wrote it, what can be clicked below it, and the open menu's entries."""

    user: str
    icons: list[Element]
    menu: dict[str, int]


def posts(obs: Observation) -> list[Post]:
    """Return the posts from top to bottom."""
    known = {element["id"]: element for element in obs["elements"]}
    found: list[Post] = []
    for line in outline(obs):
        author = re.search(r" (@\S+)", line.text)
        entry = re.fullmatch(r'\w+ "(.*)"', line.text)
        if line.id is None and author:
            found.append(Post(author.group(1), [], {}))
        elif line.id is not None and found and known[line.id]["tag"] == "li":
            name = known[line.id]["name"] or (entry.group(1) if entry else "")
            found[-1].menu[name] = line.id
        elif line.id is not None and found and known[line.id]["tag"] == "span":
            found[-1].icons.append(known[line.id])
    return found


def icon_of(post: Post, action: str) -> Element | None:
    """Return the icon for an action, whether or not it is active."""
    return next((icon for icon in post.icons if same(icon["name"].split(" ")[0], action)), None)
