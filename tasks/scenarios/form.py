"""Tasks on a club's form: one page with six fields, three pages, an upload, another tab, and a crash."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import uuid
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, Observation, Upload
from selfsurf.browser_env.actions import FocusTab
from selfsurf.tasks.scenarios.scenario import Scenario, click, fill_in, find

PEOPLE = (
    ("Ada", "Moreau"), ("Ben", "Okafor"), ("Clara", "Lindqvist"), ("David", "Rossi"), ("Elena", "Petrov"),
    ("Felix", "Baker"), ("Grace", "Tanaka"), ("Hugo", "Silva"), ("Iris", "Kowalski"), ("Jonas", "Weber"),
)  # fmt: skip
WORKSHOPS = ("Pottery", "Sailing", "Baking", "Woodwork", "Painting", "Chess")
STREETS = ("Mill Lane", "Station Road", "Park Street", "Harbour Walk", "Church Road", "Garden Avenue", "Bridge Street")
TOWNS = ("Basel", "Leeds", "Turin", "Ghent", "Bergen", "Graz", "Porto", "Cork")


class Register(Scenario):
    """A task to register for a workshop: fill in name, email and phone, choose a workshop, accept the rules, send."""

    site = "form"
    labels: ClassVar = {
        "name": ("Name", "Full name", "Your name"),
        "email": ("Email", "Email address", "Your email"),
        "phone": ("Phone", "Phone number", "Your phone"),
        "workshop": ("Workshop", "Choose a workshop", "Which workshop"),
        "rules": ("I accept the rules", "I agree to the rules", "I have read the rules"),
        "send": ("Send", "Send the form", "Register"),
    }

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the person, the phone number, the workshop and the order of the fields."""
        first, last = PEOPLE[int(rng.integers(len(PEOPLE)))] if self.varied else PEOPLE[0]
        phone = f"07{rng.integers(10**4, 10**5)}" if self.varied else "0741852"
        options = self.mixed(rng, WORKSHOPS)
        self.wanted = {
            "name": f"{first} {last}", "email": f"{first.lower()}@{last.lower()}.test", "phone": phone,
            "workshop": options[-1], "rules": True,
        }  # fmt: skip
        fields: list[dict[str, Any]] = [{"key": key, "label": self.label[key]} for key in ("name", "email", "phone")]
        fields.append({"key": "workshop", "label": self.label["workshop"], "options": options})
        fields = [*self.mixed(rng, fields), {"key": "rules", "label": self.label["rules"]}]
        goal = (
            "Register {name}, email {email}, phone {phone}, for the workshop {workshop}. Accept the rules and send it."
        ).format(**self.wanted)
        return goal, {"pages": [{"heading": "Workshops", "fields": fields, "button": self.label["send"]}]}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        return fill_in(obs, {self.label[key]: value for key, value in self.wanted.items()}, self.label["send"])


class Move(Scenario):
    """A task to change an address over three pages: the member's number, the new address, a confirmation."""

    site = "form"
    labels: ClassVar = {
        "number": ("Member number", "Number", "Your member number"),
        "street": ("Street", "New street", "Street and number"),
        "postcode": ("Postcode", "Postal code", "New postcode"),
        "town": ("Town", "New town", "Town or city"),
        "next": ("Next", "Continue", "Next page"),
        "confirm": ("Confirm", "Confirm the move", "Yes, confirm"),
    }

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the member, the new address and the order of its fields."""
        house, number, postcode = (
            (rng.integers(2, 99), rng.integers(1000, 9999), rng.integers(1000, 9999)) if self.varied
            else (12, 3310, 4051)
        )  # fmt: skip
        self.wanted = {
            "number": str(number), "street": f"{house} {self.pick(rng, STREETS)}", "postcode": str(postcode),
            "town": self.pick(rng, TOWNS),
        }  # fmt: skip
        address = [{"key": key, "label": self.label[key]} for key in ("street", "postcode", "town")]
        pages = [
            {"heading": "Who are you?", "fields": [{"key": "number", "label": self.label["number"]}],
             "button": self.label["next"]},
            {"heading": "Your new address", "fields": self.mixed(rng, address), "button": self.label["next"]},
            {"heading": "Is everything right?", "fields": [], "button": self.label["confirm"]},
        ]  # fmt: skip
        goal = "Member {number} has moved to {street}, postcode {postcode}, in {town}. Tell the club and confirm it."
        return goal.format(**self.wanted), {"pages": pages}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        wanted = {self.label[key]: value for key, value in self.wanted.items()}
        return fill_in(obs, wanted, self.label["next"]) or click(obs, "button", self.label["confirm"])


class UploadFile(Scenario):
    """A task to upload one of several files, which the task provides (`Task.uploads`)."""

    site = "form"
    labels: ClassVar = {
        "file": ("File", "Your file", "Choose the file"),
        "number": ("Member number", "Number", "Your member number"),
        "send": ("Send", "Send the file", "Hand in"),
    }
    uploads = (Path(__file__).with_name("data"),)

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the file, the member's number and the order of the fields."""
        names = sorted(path.name for path in self.uploads[0].glob("*.txt"))
        self.wanted = {"file": self.pick(rng, names), "number": str(rng.integers(1000, 9999))}
        fields = self.mixed(rng, [{"key": key, "label": self.label[key]} for key in self.wanted])
        goal = "Upload the file {file} for member {number} and send it."
        page = {"heading": "Hand in a file", "fields": fields, "button": self.label["send"]}
        return goal.format(**self.wanted), {"pages": [page]}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        field = find(obs, self.label["file"])
        if field is not None and self.wanted["file"] not in field["value"]:
            return Upload(id=field["id"], files=(self.wanted["file"],), reason="No file is chosen yet.")
        return fill_in(obs, {self.label["number"]: self.wanted["number"]}, self.label["send"])


class Voucher(Scenario):
    """A task to copy a number from a page that opens in another tab."""

    site = "form"
    labels: ClassVar = {
        "name": ("Name", "Full name", "Your name"),
        "voucher": ("Voucher", "Voucher number", "Number of the voucher"),
        "show": ("Show my voucher", "Where is my voucher?", "My voucher"),
        "send": ("Send", "Get the ticket", "Order"),
    }

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the person, the voucher's number and the order of the fields."""
        first, last = PEOPLE[int(rng.integers(len(PEOPLE)))]
        self.wanted = {"name": f"{first} {last}", "voucher": f"V{rng.integers(10**5, 10**6)}"}
        fields = self.mixed(rng, [{"key": key, "label": self.label[key]} for key in self.wanted])
        page = {"heading": "Tickets", "fields": fields, "button": self.label["send"], "voucher": self.label["show"]}
        goal = "Order a ticket for {name} with your voucher; its number opens in another tab.".format(**self.wanted)
        return goal, {"pages": [page], "voucher": self.wanted["voucher"]}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        if len(obs["tabs"]) == 1:
            return click(obs, "link", self.label["show"])
        if not obs["tabs"][0]["active"]:
            return FocusTab(index=0, reason="The number has been read.")
        return fill_in(obs, {self.label[key]: value for key, value in self.wanted.items()}, self.label["send"])


class Crash(Move):
    """A task to change an address over three pages, where the tab crashes once before the last page.

    The renderer process really ends. The environment then ends the episode as `env_error`, without a verdict, and the
    next `reset` works. A repetition with the same seed, by any process of the same run on this machine, doesn't crash;
    the repetition after that crashes again.
    """

    restarts_in_page = False

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw as `Move` does, and let the page crash unless this episode repeats a crashed one."""
        # the processes of a run have the same parent
        self._run = f"selfsurf-crash-{os.getppid()}-{rng.integers(2**63)}"
        goal, shown = super().draw(rng)
        return goal, {**shown, "crashes": None if self._has_crashed() else 2}

    def _note_crash(self) -> None:
        Path(tempfile.gettempdir(), f"{self._run}-{uuid.uuid4().hex}").touch()

    def _has_crashed(self) -> bool:
        """Consume one of the notes left by crashes, each of which allows one repetition without a crash."""
        for note in Path(tempfile.gettempdir()).glob(f"{self._run}-*"):
            with contextlib.suppress(FileNotFoundError):  # another episode has consumed the note
                note.unlink()
                return True
        return False

    async def setup(self, page: Any, rng: np.random.Generator) -> str:
        """Give the page a function that makes it crash, then set it up."""
        protocol = await page.context.new_cdp_session(page)

        async def crash() -> None:
            self._note_crash()
            with contextlib.suppress(Exception):  # the crashed page can't answer
                await asyncio.wait_for(protocol.send("Page.crash"), 5)

        await page.expose_function("crash", crash)
        return await super().setup(page, rng)
