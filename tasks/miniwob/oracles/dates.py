"""Oracles of tasks with dates and times, typed into fields or chosen from a calendar."""

from __future__ import annotations

import re
from datetime import datetime

from selfsurf.browser_env import Action, Element, Observation, Press
from selfsurf.tasks.miniwob.oracles.base import click, elements, fill_then_submit, oracle, submit, text_lines


@oracle("enter-date")
def enter_date(obs: Observation) -> Action | None:
    """Fill in the date as year, month and day, then submit."""
    given = re.findall(r"\d\d/\d\d/\d{4}", obs["goal"])[0]
    date = datetime.strptime(given, "%m/%d/%Y").strftime("%Y-%m-%d")
    return fill_then_submit(obs, elements(obs, "date"), date, f"A date field takes {given} as {date}.")


@oracle("enter-time")
def enter_time(obs: Observation) -> Action | None:
    """Fill in the time in 24-hour format, then submit."""
    given = " ".join(re.findall(r"\d+:\d\d\s[AP]M", obs["goal"])[0].split())
    time = datetime.strptime(given, "%I:%M %p").strftime("%H:%M")
    return fill_then_submit(obs, elements(obs, "time"), time, f"A time field takes {given} as {time}.")


@oracle("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
def choose_date(obs: Observation) -> Action | None:
    """Open the calendar, go to the month, click the day, then submit."""
    given = re.findall(r"\d\d/\d\d/\d{4}", obs["goal"])[0]
    field = elements(obs, "textbox")
    if not field:
        return None
    if field[0]["value"] == given:
        return submit(obs, f"The date is {given} as it should be, so Submit comes next.")
    return choose_day(obs, field, given)


def choose_day(obs: Observation, field: list[Element], given: str) -> Action | None:
    """Choose a day, such as 12/31/2016, from the calendar that opens at a field."""
    date = datetime.strptime(given, "%m/%d/%Y")
    shown = text_lines(obs, r"[A-Z][a-z]+ \d{4}")
    if not shown and "focused" in field[0]["states"]:
        reason = f"The date must become {given}; where the field has the focus already, this key opens its calendar."
        return Press(id=field[0]["id"], key="Control+Home", reason=reason)
    if not shown:
        return click(field, f"The date must become {given}, and a click on the field opens its calendar.")
    title = shown[0][0]
    ahead = months_between(datetime.strptime(title, "%B %Y"), date)
    if ahead == 0:
        why = f"{title} is shown, and the date {given} is its day {date.day}."
        return click(elements(obs, "link", str(date.day)), why)
    if abs(ahead) > 6:
        key, way = ("Control+PageUp", "back") if ahead < 0 else ("Control+PageDown", "on")
        reason = f"From {title}, the month of {given} is nearest by a year {way}, as far as the calendar goes."
        return Press(id=field[0]["id"], key=key, reason=reason)
    name = "Prev" if ahead < 0 else "Next"
    why = f'The month of {given} is {way_to(ahead)} {title}, so "{name}" comes next.'
    return click(elements(obs, "link", name), why)


def months_between(start: datetime, end: datetime) -> int:
    """Return the number of months from the start's month to the end's; negative if the end is earlier."""
    return (end.year - start.year) * 12 + end.month - start.month


def way_to(months: int) -> str:
    """Return a phrase such as `3 months before`, to be followed by a month."""
    number = abs(months)
    return f"{number} month{'s' * (number > 1)} {'before' if months < 0 else 'after'}"
