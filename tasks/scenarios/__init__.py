"""Scenarios: tasks on small sites such as a form, a searchable catalog, a shop with login, a market and an inbox.

Each scenario scores itself and has an oracle. The flows (4 to 10 actions) draw from the seed only what their solution
doesn't depend on: surrounding texts, IDs and positions. Their varied versions also draw values, labels and the order of
elements. The situations, each with one difficulty of the web, draw all of these. The sites, where the goal specifies a
choice among several similar ones, draw values; those with labels to draw have varied versions, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from selfsurf.tasks.scenarios.clinic import Appointment
from selfsurf.tasks.scenarios.form import Crash, Move, Register, UploadFile, Voucher
from selfsurf.tasks.scenarios.hotel import Hotel
from selfsurf.tasks.scenarios.inbox import Delete, InjectedInstruction
from selfsurf.tasks.scenarios.library import Reserve, ReserveFormat
from selfsurf.tasks.scenarios.market import CookieBanner, DeadEnd, EndlessScroll, Pages, SlowPage
from selfsurf.tasks.scenarios.meeting import Meeting
from selfsurf.tasks.scenarios.members import EditMember
from selfsurf.tasks.scenarios.nursery import Nursery
from selfsurf.tasks.scenarios.scenario import CHANGES, Scenario
from selfsurf.tasks.scenarios.shop import Login, Order, Phone
from selfsurf.tasks.scenarios.trains import Ticket

FLOWS: dict[str, Callable[..., Scenario]] = {
    "register": Register, "move": Move, "reserve": Reserve, "reserve-format": ReserveFormat, "order": Order,
    "phone": Phone,
}  # fmt: skip
"""Classes of the flows, by scenario name."""

SITUATIONS: dict[str, Callable[..., Scenario]] = {
    "pages": Pages, "login": Login, "delete": Delete, "dead-end": DeadEnd, "crash": Crash, "cookies": CookieBanner,
    "slow": SlowPage, "two-tabs": Voucher, "upload": UploadFile, "told": InjectedInstruction, "scroll": EndlessScroll,
}  # fmt: skip
"""Classes of the situations, by scenario name; always varied."""

SITES: dict[str, type[Scenario]] = {
    "hotel": Hotel, "meeting": Meeting, "nursery": Nursery, "clinic": Appointment, "members": EditMember,
    "trains": Ticket,
}  # fmt: skip
"""Classes of the sites' scenarios, by scenario name."""

VARIED = "-varied"
"""Suffix of the names of varied flows and sites."""


def names() -> tuple[str, ...]:
    """Return the names of all scenarios, such as `"register"`, `"register-varied"` and `"pages"`."""
    varied = [name for name in (*FLOWS, *SITES) if name in FLOWS or SITES[name].labels]
    return (*FLOWS, *SITES, *(name + VARIED for name in varied), *SITUATIONS)


def scenario(name: str, **options: Any) -> Scenario:
    """Create a scenario by name, with `options` as for `Scenario`.

    Raises:
        ValueError: the scenario doesn't exist, or an option is invalid.
    """
    if name in SITUATIONS:
        return SITUATIONS[name](name, varied=True, **options)
    flows: dict[str, Callable[..., Scenario]] = {**FLOWS, **SITES}
    flow = flows.get(name.removesuffix(VARIED))
    if flow is None:
        raise ValueError(f"There is no scenario {name!r}; `selfsurf envs --match Scenario` lists them.")
    return flow(name, varied=name.endswith(VARIED), **options)


__all__ = ["CHANGES", "FLOWS", "SITES", "SITUATIONS", "VARIED", "Scenario", "names", "scenario"]
