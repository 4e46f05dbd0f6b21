"""Messages between client and server, defined once for both."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""Pattern of an adapter's name, which is also a folder's name and part of an address."""
EPISODE_ID = r"^ep-[0-9a-f]{32}$"
JOB_ID = r"^job-[0-9a-f]{16}$"
UPLOAD_ID = r"^[0-9a-f]{64}$"

Status: TypeAlias = Literal["queued", "running", "succeeded", "failed", "cancelled"]
FINISHED: tuple[Status, ...] = ("succeeded", "failed", "cancelled")
Form: TypeAlias = Literal["peft", "mlx"]
EventType: TypeAlias = Literal["status", "progress", "log"]


MOST_EPISODES = 1000
"""Maximum number of episodes in one training."""


class Schema(BaseModel):
    """Base of the messages between client and server."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class Problem(Schema):
    """Reason why a request was refused or a job failed."""

    type: str
    """Machine-readable word, such as `not_found`."""
    message: str
    """Human-readable sentence."""
    retryable: bool
    """Whether the same request may succeed later."""


class Health(Schema):
    """State of the server."""

    status: Literal["ok"] = "ok"
    version: str
    models: tuple[str, ...]
    """Names of the base models that the server trains; the first is the default."""
    enrich: bool
    """Whether a large model can explain demonstrations."""
    trainer: Literal["idle", "running"]


class Uploaded(Schema):
    """Progress of an upload."""

    upload: str
    """SHA-256 of the archive's bytes, under which the upload can be resumed."""
    offset: int = Field(ge=0)
    """Number of bytes that the server has."""
    episode: str | None = None
    """Id of the episode; null before the upload is complete."""
    known: bool = False
    """Whether the server already had the same content."""


class Episode(Schema):
    """An uploaded episode, without the contents of its pages."""

    id: str
    created: float
    """Creation time in Unix seconds."""
    bytes: int
    steps: int
    solved: bool


class ListedEpisode(Episode):
    """An uploaded episode in the list of all."""

    goal: str
    """Goal of the episode on one line, truncated if long; empty if it was not stored."""


class Hyperparameters(Schema):
    """Settings of a run that a client may choose. `selfsurf train --settings` documents them."""

    model_config = ConfigDict(strict=True)

    steps: int | None = Field(default=None, ge=1, le=2000)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    learning_rate: float | None = Field(default=None, ge=0, le=1)
    warmup_steps: int | None = Field(default=None, ge=0, le=1000)
    ema_alpha: float | None = Field(default=None, ge=0, le=1)
    """Share of the student's weights that is mixed into the teacher at each step (`teacher_rate`)."""
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
    """Learn from failed episodes, too: where an action failed, from what worked later on that page."""


class TrainRequest(Schema):
    """Request to train an adapter on episodes."""

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
    """Name of the adapter; if it is taken, the job uses `NAME-2` and so on."""
    model: str | None = Field(default=None, max_length=200)
    """Name of one of the server's models (`GET /health`); null for the first."""
    settings: Hyperparameters = Hyperparameters()
    enrich: bool = False
    """Whether a large model explains the demonstrations; pages' contents are then sent to that model."""
    start_from: str | None = Field(default=None, pattern=NAME)
    """Name of the adapter to train further; null for a new one."""
    live: bool = False
    """Whether to play on the site; refused unless the server allows all domains involved."""


class Job(Schema):
    """A training."""

    id: str
    status: Status
    created: float
    """Creation time in Unix seconds, like `started` and `ended`."""
    started: float | None = None
    ended: float | None = None
    adapter: str
    """Name of the adapter that the job makes."""
    model: str
    step: int = 0
    steps: int | None = None
    """Total number of optimizer steps; null until known."""
    attempts: int = 0
    """Number of times that a process began or resumed the job."""
    figures: dict[str, float] = {}
    """Latest metrics of the training."""
    error: Problem | None = None
    cancelling: bool = False
    request: TrainRequest


class Event(Schema):
    """An event of a job."""

    number: int
    """Number of the event within the job, from 1."""
    time: float
    type: EventType
    data: dict[str, Any]


class File(Schema):
    """An archive that can be downloaded."""

    bytes: int
    sha256: str


class Probe(Schema):
    """Logits of the trained model after a fixed text, to verify a loaded adapter."""

    text: str
    tokens: tuple[int, ...]
    """Ids of the likeliest next tokens, the likeliest first."""
    logits: tuple[float, ...]
    """Logits of these tokens, with the adapter."""
    moved: float
    """Largest change that the adapter makes to one of these logits."""
    dtype: str
    """Precision of the base model on the server."""


class Adapter(Schema):
    """A stored adapter."""

    name: str
    created: float
    model: str
    job: str | None = None
    """Id of the job that made the adapter; null for an imported one."""
    files: dict[Form, File]
    reason: str = ""
    """Reason why the adapter has no MLX format; empty if it has."""
    probe: Probe | None = None
    leases: int = 0
    """Number of leases that protect the adapter from deletion."""


class Lease(Schema):
    """A lease, which protects an adapter from deletion."""

    id: str
    expires: float
    """Expiry time in Unix seconds."""


class Page(Schema):
    """A page of a list."""

    has_more: bool


class Jobs(Page):
    """A page of the list of jobs, newest first."""

    data: list[Job]


class Episodes(Page):
    """A page of the list of episodes, newest first."""

    data: list[ListedEpisode]


class Adapters(Page):
    """A page of the list of adapters, newest first."""

    data: list[Adapter]


class TrainStatus(Schema):
    """Running job and number of queued jobs."""

    running: Job | None
    queued: int


def content_id(files: dict[str, str]) -> str:
    """Return an episode's id from its manifest's files; equal contents have equal ids, however they were packed."""
    told = json.dumps(dict(sorted(files.items())), separators=(",", ":")).encode()
    return f"ep-{hashlib.sha256(told).hexdigest()[:32]}"
