"""What client and server say to each other. Both use these models, so neither can drift from the other."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""Of an adapter: also a folder's name, and part of an address."""
EPISODE_ID = r"^ep-[0-9a-f]{32}$"
JOB_ID = r"^job-[0-9a-f]{16}$"
UPLOAD_ID = r"^[0-9a-f]{64}$"

Status: TypeAlias = Literal["queued", "running", "succeeded", "failed", "cancelled"]
FINISHED: tuple[Status, ...] = ("succeeded", "failed", "cancelled")
Form: TypeAlias = Literal["peft", "mlx"]
EventType: TypeAlias = Literal["status", "progress", "log"]


MOST_EPISODES = 1000
"""Episodes that one training learns from."""


class Schema(BaseModel):
    """A message."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class Problem(Schema):
    """Why a request was not done."""

    type: str
    """A word for programs, such as `not_found`."""
    message: str
    """A sentence for people."""
    retryable: bool
    """May the same request succeed later?"""


class Health(Schema):
    """That the server is there."""

    status: Literal["ok"] = "ok"
    version: str
    models: tuple[str, ...]
    """Names of base models that it trains; the first is the default."""
    enrich: bool
    """Can it have a large model explain demonstrations?"""
    trainer: Literal["idle", "running"]


class Uploaded(Schema):
    """How far an upload has come."""

    upload: str
    """SHA-256 of the archive's bytes: under this name it is resumed."""
    offset: int = Field(ge=0)
    """Bytes that the server has."""
    episode: str | None = None
    """Id of the episode, once the upload is complete."""
    known: bool = False
    """Was the same content there already?"""


class Episode(Schema):
    """An uploaded episode. Nothing of its pages is told."""

    id: str
    created: float
    """Unix seconds."""
    bytes: int
    steps: int
    solved: bool


class ListedEpisode(Episode):
    """An uploaded episode, in the list of all."""

    goal: str
    """On one line, cut if it is long; empty where it was not kept."""


class Hyperparameters(Schema):
    """The settings of a run that a client may choose (`selfsurf train --settings` says what they mean)."""

    model_config = ConfigDict(strict=True)

    steps: int | None = Field(default=None, ge=1, le=2000)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    learning_rate: float | None = Field(default=None, ge=0, le=1)
    warmup_steps: int | None = Field(default=None, ge=0, le=1000)
    ema_alpha: float | None = Field(default=None, ge=0, le=1)
    """Share of the student that goes into the teacher at each step: `teacher_rate`."""
    lora_rank: int | None = Field(default=None, ge=1, le=256)
    episodes_per_step: int | None = Field(default=None, ge=1, le=256)
    max_rows: int | None = Field(default=None, ge=1, le=256)
    recorded_rows: int | None = Field(default=None, ge=0, le=256)
    max_prompt_tokens: int | None = Field(default=None, ge=64, le=32768)
    checkpoint_every: int | None = Field(default=None, ge=1, le=1000)
    evaluate_every: int | None = Field(default=None, ge=0, le=1000)
    evaluate_seeds: int | None = Field(default=None, ge=1, le=1000)
    least_first_divergence: float | None = Field(default=None, ge=0, le=100)
    rehearsal: float | None = Field(default=None, ge=0, le=100)
    minutes: float | None = Field(default=None, gt=0, le=100_000)
    hindsight: bool = False
    """Learn from failed episodes as well: where an action failed, from what worked later on that page."""


class TrainRequest(Schema):
    """What is to be trained, on which episodes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "episodes": ["ep-0123456789abcdef0123456789abcdef"],
                    "adapter": "shop",
                    "settings": {"steps": 40, "ema_alpha": 0.005},
                    "enrich": False,
                }
            ]
        }
    )

    episodes: tuple[Annotated[str, Field(pattern=EPISODE_ID)], ...] = Field(min_length=1, max_length=MOST_EPISODES)
    adapter: str = Field(default="adapter", pattern=NAME)
    """Name of the adapter; where it is taken, the job has `NAME-2` and so on."""
    model: str | None = Field(default=None, max_length=200)
    """One of the server's models (`GET /health`); its first if null."""
    settings: Hyperparameters = Hyperparameters()
    enrich: bool = False
    """Have a large model explain the demonstrations; pages' contents are sent there."""
    start_from: str | None = Field(default=None, pattern=NAME)
    """Adapter to train further."""
    live: bool = False
    """Play on the site; refused unless the server allows all domains in question."""


class Job(Schema):
    """A training."""

    id: str
    status: Status
    created: float
    """Unix seconds, as the two below."""
    started: float | None = None
    ended: float | None = None
    adapter: str
    """Name of the adapter that it makes."""
    model: str
    step: int = 0
    steps: int | None = None
    """Optimizer steps in all; null until they are known."""
    attempts: int = 0
    """How often a process began or went on with it."""
    figures: dict[str, float] = {}
    """The latest metrics."""
    error: Problem | None = None
    cancelling: bool = False
    request: TrainRequest


class Event(Schema):
    """Something that happened in a job."""

    number: int
    """Counts from 1 within the job."""
    time: float
    type: EventType
    data: dict[str, Any]


class File(Schema):
    """An archive that can be downloaded."""

    bytes: int
    sha256: str


class Probe(Schema):
    """What the trained model thinks of a fixed text, for whoever loads the adapter to compare."""

    text: str
    tokens: tuple[int, ...]
    """Ids of the likeliest next tokens, the likeliest first."""
    logits: tuple[float, ...]
    """Theirs, with the adapter."""
    moved: float
    """The most that the adapter changed one of these logits."""
    dtype: str
    """Precision of the base model on the server."""


class Adapter(Schema):
    """An adapter that is there."""

    name: str
    created: float
    model: str
    job: str | None = None
    """Null: it was imported."""
    files: dict[Form, File]
    reason: str = ""
    """Why there is no form for MLX, if there is none."""
    probe: Probe | None = None
    leases: int = 0
    """How many clients hold it: it can't be deleted."""


class Lease(Schema):
    """A hold on an adapter."""

    id: str
    expires: float
    """Unix seconds."""


class Page(Schema):
    """A part of a list."""

    has_more: bool


class Jobs(Page):
    """The newest first."""

    data: list[Job]


class Episodes(Page):
    """The newest first."""

    data: list[ListedEpisode]


class Adapters(Page):
    """The newest first."""

    data: list[Adapter]


class TrainStatus(Schema):
    """What the trainer is doing."""

    running: Job | None
    queued: int


def content_id(files: dict[str, str]) -> str:
    """Return the id of an episode by its manifest: the same for the same content, however it was packed."""
    told = json.dumps(dict(sorted(files.items())), separators=(",", ":")).encode()
    return f"ep-{hashlib.sha256(told).hexdigest()[:32]}"
