"""A clinic's site for appointments: sign in, then choose a department, a doctor, a time and a reason."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from selfsurf.browser_env import Action, Observation
from selfsurf.tasks.scenarios.form import PEOPLE
from selfsurf.tasks.scenarios.scenario import Scenario, click, fill_in, one, some
from selfsurf.tasks.scenarios.shop import PASSWORDS

DEPARTMENTS = (
    "Cardiology", "Dentistry", "Dermatology", "Gynaecology", "Neurology", "Ophthalmology", "Orthopaedics",
    "Paediatrics", "Radiology", "Urology",
)  # fmt: skip
DOCTORS = (
    "Chen", "Cheng", "Adeyemi", "Bauer", "Costa", "Dubois", "Eriksen", "Fontana", "Gupta", "Haddad", "Ivanova",
    "Jansen", "Keller", "Larsen", "Mbeki", "Novak",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
TIMES = (
    "08:00", "08:30", "09:15", "09:30", "10:00", "10:45", "11:30", "13:00", "13:30", "14:15", "15:00", "15:30",
)  # fmt: skip
REASONS = {
    "First visit": "as a first visit", "Check-up": "for a check-up", "Follow-up": "as a follow-up",
    "Test results": "to talk about test results", "Prescription": "to get a prescription",
    "Second opinion": "for a second opinion", "Vaccination": "for a vaccination", "Sick note": "to get a sick note",
}  # fmt: skip
"""Reasons for a visit as on the page, with their wording in a goal."""


class Appointment(Scenario):
    """A task to sign in and book an appointment. Every department and doctor can be the one to book."""

    site = "clinic"
    labels: ClassVar = {
        "email": ("Email", "Email address", "Your email"),
        "password": ("Password", "Your password", "Secret word"),
        "enter": ("Sign in", "Log in", "Enter"),
        "departments": ("Departments", "All departments", "Our departments"),
        "choose": ("Choose", "Book", "See times of"),
        "next": ("Continue", "Next", "Go on"),
        "confirm": ("Confirm appointment", "Confirm", "Book this appointment"),
    }

    def draw(self, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
        """Draw the patient, the doctors of each department, the free times, and the appointment to book."""
        first, last = PEOPLE[int(rng.integers(len(PEOPLE)))]
        self.email, self.password = f"{first}@{last}.test".lower(), one(rng, PASSWORDS)
        doctors = {name: [f"Dr. {each}" for each in some(rng, DOCTORS, 4)] for name in self.mixed(rng, DEPARTMENTS)}
        days, times = sorted(some(rng, DAYS, 3), key=DAYS.index), sorted(some(rng, TIMES, 3))
        department, day, time, reason = one(rng, DEPARTMENTS), one(rng, days), one(rng, times), one(rng, [*REASONS])
        doctor = one(rng, doctors[department])
        self.wanted = {"department": department, "doctor": doctor, "slot": f"{day[:3]} {time}", "reason": reason}
        goal = (
            f"Sign in as {self.email} with the password {self.password} and book an appointment with {doctor} in "
            f"{department.lower()} on {day} at {time.removeprefix('0')}, {REASONS[reason]}."
        )
        slots = [[f"{each[:3]} {at}" for at in times] for each in days]
        shown = {"email": self.email, "password": self.password, "departments": [*doctors.items()]}
        return goal, {**shown, "slots": slots, "reasons": self.mixed(rng, [*REASONS])}

    def oracle(self, obs: Observation) -> Action | None:
        """Return the next action."""
        patient = {self.label["email"]: self.email, self.label["password"]: self.password}
        return (
            fill_in(obs, patient, self.label["enter"])
            or fill_in(obs, {self.wanted["reason"]: True}, self.label["next"])
            or click(obs, "button", self.label["confirm"])
            or click(obs, "button", self.wanted["slot"])
            or click(obs, "button", f"{self.label['choose']} {self.wanted['doctor']}")
            or click(obs, "link", self.wanted["department"])
        )
