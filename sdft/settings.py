"""Settings of a training run. docs/learning.md explains how the defaults were found."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from selfsurf.agents.kinds import Labels, Texts, check_kinds
from selfsurf.agents.llm.llm_agent import Vision
from selfsurf.agents.prompt.named import PromptName
from selfsurf.agents.prompt.prompt import DEMONSTRATION, Sight, check_wording
from selfsurf.agents.prompt.vision import MAX_IMAGE_SIDE
from selfsurf.browser_env.environment.env_options import EnvironmentSettings
from selfsurf.envs_registry import task_names, task_of
from selfsurf.renames import REMOVED_SETTINGS, SETTINGS, told_of_settings
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.teacher.enrich import EnrichSettings

_FIXED = ("batch", "ahead", "engine", "engine_folder")
CHANGEABLE = ("report_to", *(f"rollouts.{name}" for name in RolloutSettings.model_fields if name not in _FIXED))
"""Settings that may change when a run is resumed, because they don't affect what is learned."""


GOING_ON = {"learning_rate": 5e-4, "warmup_steps": 10}
"""Defaults that differ in a run that starts from an adapter."""

_OFFLINE = {"recorded_rows": 0, "evaluate_every": 10}
"""Defaults that differ in an offline run (`episodes`)."""


def overlap(one: range, other: range) -> bool:
    """Whether two ranges of seeds overlap."""
    return one.start < other.stop and other.start < one.stop


def _contexts_for(tasks: Iterable[str]) -> tuple[str, ...]:
    """Return the contexts that can teach these tasks without recordings."""
    has_oracle = []
    for task in tasks:
        with contextlib.suppress(ValueError):  # an unknown task is reported by the run
            has_oracle.append(task_of(task).has_oracle)
    return ("oracle",) * (any(has_oracle) or not has_oracle) + ("hindsight",) * (not all(has_oracle))


def _named(tasks: Any) -> Any:
    return task_names(*tasks) if isinstance(tasks, (tuple, list)) else tasks


Tasks: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_named)]


class TrainSettings(BaseModel):
    """Settings of a training run. Frozen, and saved beside the adapter."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    model: str = "smollm2"
    """Short name, hub id or folder of the model."""
    role: Literal["agent", "verifier"] = "agent"
    """Purpose of the adapter: `agent` acts; `verifier` checks an agent's work before the episode ends
    (`train_verifier`)."""
    dtype: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of the base model. `auto` is the precision of its files, or float32 on a CPU without arithmetic for
    that precision. The adapter's weights are always float32."""
    quantization: Literal["none", "nf4"] = "none"
    """Quantization of the base model. `nf4` holds its linear layers in 4 bits, which saves memory but not time."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass instead of storing them: less memory, more time."""
    vision: Vision = "auto"
    """Part of the screenshot that a vision-language model gets; text models get none."""
    max_image_side: int | None = Field(default=MAX_IMAGE_SIDE, ge=1)
    """Longer side, in pixels, to which larger screenshots are scaled down; None for no scaling."""
    tasks: Tasks = ()
    """Tasks to learn, by any of their names (docs/tasks.md): `MiniWoB/click-link-v0`, `shop.py:Order`, or a whole suite
    as `shop.toml#train`. Files are stored by absolute path. Empty: the tasks and seeds of `demonstrations`."""
    demonstrations: tuple[str, ...] = ()
    """Folders of successful episodes, at any depth, for the context `demonstration`."""
    episodes: tuple[str, ...] = ()
    """Folders of recorded episodes, by any player, to learn from offline, without a browser: the student acts at the
    recorded states, and the teacher's prompt contains the recorded action. Only episodes judged solved teach, and steps
    that earned a reward. Replaces `tasks` and `demonstrations`."""
    live: bool = False
    """Allow training without `tasks` to play on the site on which `demonstrations` were recorded."""
    contexts: tuple[Literal["oracle", "demonstration", "hindsight", "feedback"], ...] = Field(
        default=(), validate_default=True
    )
    """Sources of the teacher's extra context: `oracle`, the oracle's action; `demonstration`, the action of a recorded
    episode for the same goal; `hindsight`, the action of the agent's own successful episodes for the same goal;
    `feedback`, the outcome of the student's action. The first source that has an action provides it; the others add to
    it. With `episodes` or `demonstrations`, `hindsight` besides `demonstration` adds what a solved run of the same
    task, goal and seed did on the page of a failed run, or what worked later in the same episode after a step that
    failed or changed nothing. Empty: `demonstration` with `demonstrations` or `episodes`; otherwise `oracle` for tasks
    that have an oracle and `hindsight` for tasks without."""
    recorded_rows: int = Field(default=12, ge=0)
    """Recorded steps in each optimizer step of a run with `demonstrations`, varied anew each time
    (`sdft.rows.recorded`). These rows, and the student's own steps with a known action, are distilled from the teacher
    if it gives the recorded action at least half of the probability, and otherwise learned by cross-entropy. 0: no
    recorded steps; the teacher scores only what the student sampled. 0 is the default with `episodes`."""
    hindsight_episodes: tuple[str, ...] = ()
    """Folders of the agent's own earlier successful episodes, for the context `hindsight`."""
    enrich: EnrichSettings | None = None
    """Settings of a large model that explains the teacher's context; None for no explanations."""
    steps: int = Field(default=28, ge=1)
    """Number of optimizer steps."""
    episodes_per_step: int = Field(default=10, ge=1)
    """Episodes that make one batch."""
    max_rows: int = Field(default=10, ge=1)
    """Maximum number of training rows per batch; a row is one step of an episode."""
    lead: float = Field(default=0.0, ge=0, lt=1)
    """Probability that the oracle takes an episode's first step, and then each next step until the student takes over.
    The student thus meets the later steps of a task before it masters the earlier ones. The oracle's steps aren't
    learned from; tasks without an oracle always begin with the student."""
    max_episode_steps: int = Field(default=3, ge=1)
    """Maximum length of a training episode, in steps; a beginner only repeats itself after that."""
    seed: int = Field(default=0, ge=0)
    """Seed of all randomness except the training episodes, whose seeds start at `first_episode_seed`."""
    first_episode_seed: int = Field(default=0, ge=0)
    """Seed of the first training episode. Seeds count up from it for each task."""
    learning_rate: float = Field(default=1e-3, ge=0)
    """Peak learning rate of AdamW, reached after the warm-up, then falling linearly to 0. Default with `start_from`:
    5e-4."""
    warmup_steps: int = Field(default=3, ge=0)
    """Optimizer steps of linear warm-up from rate 0, at most a quarter of all steps. Default with `start_from`: 10."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Maximum norm to which gradients are clipped."""
    lora_rank: int = Field(default=16, ge=1)
    """Rank of the adapter. Its scale is alpha / rank, with alpha = 2 * rank."""
    lora_targets: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    )  # fmt: skip
    """Names of the modules that get an adapter; by default all linear layers."""
    lora_vision: bool = False
    """Also adapt modules of these names outside the language model, such as in a vision tower."""
    teacher: Literal["auto", "ema", "base", "live"] = "auto"
    """Weights of the teacher: `ema`, a moving average of the student's; `base`, the frozen model's; `live`, the
    student's own. `auto` is the average, except in a run with `start_from`: there the frozen model teaches the rows in
    which it follows the demonstration and the average doesn't (`sdft.teacher.following`)."""
    teacher_rate: float = Field(default=0.005, ge=0, le=1)
    """Share of the student's weights that is mixed into the averaged teacher at each update."""
    teacher_sees: Sight = "page"
    """Part of the observation in the teacher's prompt, besides the demonstrated action: `all`, as in the student's
    prompt; `page`, without the past actions and without the actions listed for the page's elements, both of which
    mislead it; `goal`, nothing of the page. Prompts without a demonstrated action contain everything."""
    teacher_wording: str = DEMONSTRATION
    """Wording of the demonstration in the teacher's prompt; `{action}` stands for the action."""
    teacher_temperature: float = Field(default=0.5, gt=0)
    """Temperature of the teacher's distribution relative to the student's; values below 1 sharpen it."""
    divergence: float = Field(default=0.0, ge=0, le=1)
    """Divergence to minimize: 0 for forward KL(teacher || student), 1 for reverse; values between interpolate."""
    importance_clip: float | None = Field(default=None, gt=0)
    """Cap on a token's importance weight, its probability under the current student relative to that when it was
    sampled. None for no weighting. Useful if samples are older than the student."""
    rehearsal: float = Field(default=0.0, ge=0)
    """Weight of the divergence from the untrained model on texts that the model wrote itself (`forgetting.rehearsal`);
    0 for none."""
    rehearsal_rows: int = Field(default=2, ge=1)
    """Number of rehearsal texts, of 128 tokens each, in an optimizer step."""
    practice: float | None = Field(default=None, ge=0)
    """Weight of the divergence from the adapter in `start_from`, on that adapter's own steps in the tasks that it has
    learned (`forgetting.practice`); 0 for none. None: 1, if such tasks exist and the adapter can do them. No effect
    without `start_from`."""
    practice_rows: int = Field(default=4, ge=1)
    """Number of practice steps in an optimizer step."""
    min_confidence: float = Field(default=0.0, ge=0, le=1)
    """Minimum probability of the teacher's likeliest token; less confident tokens aren't learned from."""
    success_gate: bool = False
    """Learn only from solved episodes and from steps that earned a reward. A batch without any leaves student and
    teacher unchanged. Always on with `episodes`."""
    least_first_divergence: float = Field(default=1e-3, ge=0)
    """Minimum divergence of teacher and student before the first step, in nats per token. Below it the run stops,
    because the demonstrations teach nothing."""
    temperature: float = Field(default=1.0, gt=0)
    """Temperature at which the student samples its actions in training."""
    max_new_tokens: int = Field(default=48, ge=1)
    """Maximum number of tokens in an action."""
    labels: Labels = False
    """Whether a reply names its element before the element's id: `true` for all elements, `"fields"` only for fields,
    whose name then precedes the text. Saved with the adapter."""
    texts: Texts = "free"
    """Text that replies may fill in or type: `free` for any, `"goal"` only for text quoted from the goal. Saved with
    the adapter."""
    max_prompt_tokens: int = Field(default=1024, ge=1)
    """Token budget of the student's prompt; the page is cut to fit. The teacher's prompt is longer by the
    demonstration."""
    prompt: PromptName = "compact"
    """Class that writes the prompts: `compact`, `chat`, or a custom `file.py:Class`. Saved with the adapter."""
    instructions: str = ""
    """Additional instructions in the prompt. Saved with the adapter."""
    actions: Annotated[tuple[str, ...], AfterValidator(check_kinds)] = ("click", "fill", "select")
    """Kinds of actions offered to the agent."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Optimizer steps between checkpoints."""
    rollouts: RolloutSettings = RolloutSettings()
    """Placement of episodes and sampling of their actions: workers on a Ray cluster, batches, time limits."""
    evaluate_every: int = Field(default=0, ge=0)
    """Optimizer steps between evaluations on held-out episodes, which also precede the first and follow the last step;
    0 for none. With evaluations the run ends with its best state, and a drop leads to a rollback (`max_success_fall`,
    `max_perplexity_rise`). With `episodes`, an evaluation is the share of recorded actions that the student reproduces
    greedily at held-out states, every 10 steps by default; with 0 no states are held out."""
    evaluate_seeds: int = Field(default=8, ge=1)
    """Held-out episodes per task, or held-out states with `episodes`; the same in every evaluation."""
    first_evaluation_seed: int = 1_000_000
    """Seed of the first held-out episode. Held-out and training seeds must not overlap; benchmark seeds begin at
    2,000,000."""
    evaluate_tasks: Tasks = ()
    """Tasks to evaluate in addition to `tasks`, with equal weight."""
    stop_at_success: float | None = Field(default=None, gt=0, le=1)
    """Success rate, or agreement in a run with `episodes`, at which an evaluation after a step ends training; None to
    train for all steps. The learning rate falls as if all steps were made."""
    max_success_fall: float = Field(default=0.2, ge=0)
    """Maximum drop of mean held-out success below that of the best state; a larger drop leads to a rollback to that
    state."""
    max_perplexity_rise: float = Field(default=0.1, ge=0)
    """Maximum rise of perplexity on general text, as a share of the base model's; a larger rise leads to a rollback to
    the best state."""
    rollback_learning_rate: float = Field(default=0.5, gt=0, le=1)
    """Factor applied to the learning rate at every rollback to the best state."""
    max_rollbacks: int = Field(default=3, ge=1)
    """Number of rollbacks to the best state at which the run stops."""
    environment: EnvironmentSettings = EnvironmentSettings()
    """Browser, permissions and human input in this run's episodes. Secrets are stored by name only."""
    report_to: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = ()
    """Destinations of metrics besides `metrics.jsonl`; each requires its package."""
    snapshot_every: int = Field(default=0, ge=0)
    """Optimizer steps between adapters kept in `snapshots/` to follow the learning; 0 for none."""
    minutes: float | None = Field(default=None, gt=0)
    """Minutes of wall-clock time after which training stops at the end of the current step; None for no limit. The
    learning rate falls as if all steps were made."""
    start_from: Path | None = None
    """Folder of the adapter to train further, with its rank and targets; None for a new adapter."""

    def __new__(cls, **given: Any) -> Self:
        """Refuse settings of earlier versions with a hint. A "before" validator would get in the way of strict JSON.

        Raises:
            ValueError: a setting of an earlier version is given.
        """
        if told := told_of_settings(given):
            raise ValueError(told)
        return super().__new__(cls)

    @property
    def teacher_weights(self) -> Literal["ema", "base", "live", "chosen"]:
        """The kind of weights that teach in this run; `chosen` is decided row by row."""
        if self.teacher != "auto":
            return self.teacher
        return "ema" if self.start_from is None else "chosen"

    @property
    def episode_seeds(self) -> range:
        """Seeds of the training episodes of a task."""
        count = -(-self.steps * self.episodes_per_step // max(1, len(self.tasks)))
        return range(self.first_episode_seed, self.first_episode_seed + count)

    @property
    def offline(self) -> bool:
        """Whether the run learns from recorded episodes only, without a browser."""
        return bool(self.episodes)

    @property
    def looks_back(self) -> bool:
        """Whether recorded episodes also teach, offline, what worked later after a step that went wrong."""
        return self.offline and "hindsight" in self.contexts

    @model_validator(mode="after")
    def _slower_from_an_adapter(self) -> TrainSettings:
        if self.start_from is not None:
            self.__dict__.update({key: one for key, one in GOING_ON.items() if key not in self.model_fields_set})
        return self

    @model_validator(mode="after")
    def _nothing_is_played_offline(self) -> TrainSettings:
        if not self.offline:
            return self
        self.__dict__.update({key: one for key, one in _OFFLINE.items() if key not in self.model_fields_set})
        if "feedback" in self.contexts:
            raise ValueError(
                'the context "feedback" is not available offline: the student\'s sampled actions are not played'
            )
        if self.contexts not in (("demonstration",), ("demonstration", "hindsight")):
            raise ValueError(
                'offline the teacher is shown recorded actions: set contexts to ["demonstration"] or '
                '["demonstration", "hindsight"], or leave it out'
            )
        names = ("tasks", "demonstrations", "evaluate_tasks", "lead", "practice", "live", "hindsight_episodes")
        played = [name for name in names if getattr(self, name)]
        if self.rollouts.workers:
            played.append("rollouts.workers")
        if played:
            raise ValueError(f"offline training plays no episodes: leave out {', '.join(played)}")
        return self

    @model_validator(mode="after")
    def _something_to_learn(self) -> TrainSettings:
        if not (self.tasks or self.demonstrations or self.episodes):
            raise ValueError("there is nothing to learn: give tasks, demonstrations or episodes")
        if ("demonstration" in self.contexts) != bool(self.demonstrations or self.episodes):
            raise ValueError(
                'demonstrations and the context "demonstration" need each other: give both, as in '
                'contexts=["demonstration"], or neither'
            )
        if (self.demonstrations or self.episodes) and self.recorded_rows and self.importance_clip is not None:
            raise ValueError(
                "importance_clip applies only to actions that the student sampled: set recorded_rows=0, or leave it out"
            )
        if self.enrich is not None and (self.role == "verifier" or not {*self.enrich.contexts} & {*self.contexts}):
            what = "a verifier has no teacher" if self.role == "verifier" else f"contexts is {list(self.contexts)}"
            raise ValueError(f"nothing would be learned from the explanations of enrich: {what}")
        if self.hindsight_episodes and "hindsight" not in self.contexts:
            raise ValueError('hindsight_episodes need the context "hindsight": add it to contexts, or leave them out')
        if self.evaluate_tasks and not self.evaluate_every:
            raise ValueError("evaluate_tasks requires evaluate_every: set both")
        if self.stop_at_success is not None and not self.evaluate_every:
            raise ValueError("stop_at_success requires evaluate_every: set both")
        if twice := sorted({task for task in self.tasks if self.tasks.count(task) > 1}):
            raise ValueError(f"{', '.join(twice)}: named twice")
        return self

    @field_validator("contexts")
    @classmethod
    def _some_context(cls, contexts: tuple[str, ...], known: ValidationInfo) -> tuple[str, ...]:
        if contexts:
            return contexts
        shown = known.data.get("demonstrations") or known.data.get("episodes")
        return ("demonstration",) if shown else _contexts_for(known.data.get("tasks", ()))

    @field_validator("teacher_wording")
    @classmethod
    def _tells_the_action(cls, wording: str) -> str:
        return check_wording(wording)

    @model_validator(mode="after")
    def _profile_here(self) -> TrainSettings:
        if self.environment.profile and self.rollouts.workers:
            raise ValueError(
                "a profile serves one episode at a time, not workers: give its logins as storage_state instead"
            )
        return self

    @model_validator(mode="after")
    def _heldout_is_held_out(self) -> TrainSettings:
        trained = self.episode_seeds
        judged = range(self.first_evaluation_seed, self.first_evaluation_seed + self.evaluate_seeds)
        if self.tasks and self.evaluate_every and overlap(trained, judged):
            raise ValueError(
                f"the evaluation seeds ({judged.start} to {judged.stop - 1}) overlap the training seeds "
                f"({trained.start} to {trained.stop - 1}): choose another first_evaluation_seed"
            )
        return self


def sdft_only(settings: TrainSettings) -> list[str]:
    """Return the names of the given settings that only SDFT supports."""
    # `_OFFLINE` also sets evaluate_every
    asked = settings.evaluate_every and "evaluate_every" in settings.model_fields_set
    named = {"rollouts.workers": settings.rollouts.workers, "evaluate_every": asked, "lead": settings.lead}
    return [name for name, value in named.items() if value]


def fields() -> dict[str, FieldInfo]:
    """Return the settings of a run by their `--set` names; those of rollouts are named like `rollouts.workers`."""
    own = {name: field for name, field in TrainSettings.model_fields.items() if name != "rollouts"}
    return {**own, **{f"rollouts.{name}": field for name, field in RolloutSettings.model_fields.items()}}


class GRPOSettings(TrainSettings):
    """Settings of a GRPO run. Settings of SDFT's teacher and divergence have no effect."""

    group_size: int = Field(default=5, ge=2)
    """Episodes of the same task and seed that are compared with each other."""

    @model_validator(mode="after")
    def _whole_groups(self) -> GRPOSettings:
        if self.episodes_per_step % self.group_size:
            raise ValueError(
                f"episodes_per_step must be a multiple of group_size ({self.group_size}), not {self.episodes_per_step}"
            )
        return self


def from_earlier(saved: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return settings saved by this or an earlier version under their current names.

    Raises:
        ValueError: a removed setting has an effect.
    """
    teacher = saved.get("teacher", "auto")
    unused = {
        "top_k": True,
        "teacher_every": teacher in ("base", "live") or (teacher == "auto" and bool(saved.get("start_from"))),
        "oracle_reason": "oracle" not in saved.get("contexts", ("oracle",)),
    }
    for name, default in REMOVED_SETTINGS.items():
        if saved.get(name, default) != default and not unused.get(name):
            raise ValueError(
                f"{path}: the run was begun with {name}={json.dumps(saved[name])}, which this version doesn't support. "
                "Finish the run with the version that began it, or begin another run in another folder."
            )
    rollouts = {new.removeprefix("rollouts."): saved[old] for old, new in SETTINGS.items() if old in saved}
    kept = {name: value for name, value in saved.items() if name not in SETTINGS and name not in REMOVED_SETTINGS}
    if saved.get("demonstrations"):
        kept = {"recorded_rows": 0, **kept}
    return {**kept, "rollouts": rollouts} if rollouts else kept
