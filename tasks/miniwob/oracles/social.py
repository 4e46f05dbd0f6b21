"""Oracles of tasks with social media posts, each with a row of icons below."""

from __future__ import annotations

import re
from typing import NamedTuple

from selfsurf.browser_env import Action, Click, Element, Observation, Wait
from selfsurf.tasks.miniwob.oracles.base import oracle, outline, quoted, same, submit


class Post(NamedTuple):
    """A post: its author and clickable elements, which are its icons and the entries of its menu if open."""

    user: str
    parts: list[Element]


def posts(obs: Observation) -> list[Post]:
    """Return the posts from top to bottom."""
    known = {element["id"]: element for element in obs["elements"]}
    found: list[Post] = []
    for line in outline(obs):
        author = re.search(r" (@\S+)", line.text)
        if line.id is None and author:
            found.append(Post(author[1], []))
        elif line.id is not None and found and known[line.id]["tag"] != "button":
            found[-1].parts.append(known[line.id])
    return found


def part(post: Post, name: str) -> Element | None:
    """Return an icon, active or not, or a menu entry, whose name may end with the user's; None if missing."""
    names = (name, f"{name} active", f"{name} {post.user}")
    return next((e for e in post.parts if any(same(e["name"], known) for known in names)), None)


@oracle("social-media")
def social_media(obs: Observation) -> Action | None:
    """Click the button of the user's post. Buttons without an icon are in the menu behind the dots."""
    user = re.findall(r"@[^ ,]+", obs["goal"])[0]
    name = quoted(obs["goal"])[0]
    for post in posts(obs):
        if post.user != user:
            continue
        if button := part(post, name):
            return Click(id=button["id"], reason=f'The goal asks for "{name}" on the post of {user}, and this is it.')
        if name not in ("Reply", "Retweet", "Like") and (dots := part(post, "more")):
            return Click(id=dots["id"], reason=f'"{name}" is in the menu behind the dots of the post of {user}.')
        return Wait(ms=200, reason=f"The icons of the post of {user} are not all drawn yet.")
    return None


@oracle("social-media-all", "social-media-some")
def social_media_some(obs: Observation) -> Action | None:
    """Activate the icon on the requested number of the user's posts, and no other icon, then submit."""
    user = re.findall(r"@[^ ,]+", obs["goal"])[0]
    name = quoted(obs["goal"])[0]
    shown = posts(obs)
    amount = re.search(r"on (\d+) posts?", obs["goal"])
    theirs = [icon for post in shown if post.user == user and (icon := part(post, name))]
    wanted = theirs[: int(amount[1])] if amount else theirs
    for post in shown:
        for icon in post.parts:
            active = icon["name"].endswith(" active")
            if active and icon not in theirs:
                return Click(id=icon["id"], reason=f'"{icon["name"]}" on a post of {post.user} must not be active.')
    on = [icon for icon in theirs if icon["name"].endswith(" active")]
    if len(on) > len(wanted):
        return Click(id=on[-1]["id"], reason=f'{len(on)} posts by {user} have "{name}", but {len(wanted)} should.')
    if len(on) < len(wanted):
        following = next(icon for icon in theirs if icon not in on)
        return Click(
            id=following["id"],
            reason=f'{len(on)} of the {len(wanted)} posts by {user} have "{name}", so it comes to the next one.',
        )
    return submit(obs, f'All {len(wanted)} posts by {user} have "{name}", so Submit is next.')
