"""Settings of a training run. How the defaults were found is in docs/learning.md."""

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

from selfsurf.agents.llm_agent import Vision
from selfsurf.agents.prompt.named import PromptName
from selfsurf.agents.prompt.prompt import DEMONSTRATION, Sight, check_wording
from selfsurf.agents.prompt.vision import MAX_IMAGE_SIDE
from selfsurf.agents.reply.kinds import Labels, Texts, check_kinds
from selfsurf.browser_env.environment import EnvironmentSettings
from selfsurf.envs_registry import task_names, task_of
from selfsurf.renames import REMOVED_SETTINGS, SETTINGS, told_of_settings
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.teacher.enrich import EnrichSettings

_FIXED = ("batch", "ahead", "engine", "engine_folder")
CHANGEABLE = ("report_to", *(f"rollouts.{name}" for name in RolloutSettings.model_fields if name not in _FIXED))
"""Settings that may differ when a run is resumed: what is learned does not depend on them."""


GOING_ON = {"learning_rate": 5e-4, "warmup_steps": 10}
"""Other defaults of a run that starts from an adapter."""

_OFFLINE = {"recorded_rows": 0, "evaluate_every": 10}
"""Other defaults of a run with `episodes`."""


def overlap(one: range, other: range) -> bool:
    """Do two ranges of seeds overlap?"""
    return one.start < other.stop and other.start < one.stop


def _contexts_for(tasks: Iterable[str]) -> tuple[str, ...]:
    """What can teach these tasks, if there are no recordings."""
    has_oracle = []
    for task in tasks:
        with contextlib.suppress(ValueError):  # it is not there, as the run will say
            has_oracle.append(task_of(task).has_oracle)
    return ("oracle",) * (any(has_oracle) or not has_oracle) + ("hindsight",) * (not all(has_oracle))


def _named(tasks: Any) -> Any:
    return task_names(*tasks) if isinstance(tasks, (tuple, list)) else tasks


Tasks: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_named)]


class TrainSettings(BaseModel):
    """What a training run does. Frozen, and saved beside the adapter."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    model: str = "smollm2"
    """Short name, hub id or folder of the model."""
    role: Literal["agent", "verifier"] = "agent"
    """Who the adapter is: an agent, or what an agent of roles asks before it counts as done (`train_verifier`)."""
    dtype: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of the base model; by default that of its files, or float32 on a CPU that has no arithmetic for it. The
    adapter's weights are float32."""
    quantization: Literal["none", "nf4"] = "none"
    """`nf4` holds the base model's linear layers in 4 bits: less memory, not less time."""
    gradient_checkpointing: bool = False
    """Compute a layer's activations again in the backward pass instead of keeping them: less memory, more time."""
    vision: Vision = "auto"
    """What a vision-language model is shown of the screenshot; nothing of it is shown to a text model."""
    max_image_side: int | None = Field(default=MAX_IMAGE_SIDE, ge=1)
    """Screenshots are scaled down to this many pixels of the longer side; None leaves them."""
    tasks: Tasks = ()
    """Tasks to learn, by any of their names (docs/tasks.md): `MiniWoB/click-link-v0`, `shop.py:Order`, all of a suite
    by `shop.toml#train`. Files are kept by their absolute paths. None: those of `demonstrations`, with their seeds."""
    demonstrations: tuple[str, ...] = ()
    """Folders of episodes that reached their goal, or of many such, for the context `demonstration`."""
    episodes: tuple[str, ...] = ()
    """Folders of recorded episodes, whoever played them, to learn from offline, without a browser: the student acts at
    the recorded states, and the teacher is told what was done there. Only episodes that were judged solved teach, and
    steps that earned a reward. Instead of `tasks` and `demonstrations`."""
    live: bool = False
    """Let training without `tasks` play on the site on which `demonstrations` were recorded."""
    contexts: tuple[Literal["oracle", "demonstration", "hindsight", "feedback"], ...] = Field(
        default=(), validate_default=True
    )
    """What the teacher is told: the oracle's action; that of a recorded episode for the same goal; that of the agent's
    own successful episodes for the same goal; what came of the student's action. The first that names an action has
    it, the others add to it. With `episodes` or `demonstrations`, `hindsight` besides `demonstration` is what a solved
    run of the same task, goal and seed did on the page of a failed one, or what worked later in the same episode where
    something failed or changed nothing. Empty: `demonstration` where there are such, or `episodes`; else `oracle` where
    a task has one, and `hindsight` where one has not."""
    recorded_rows: int = Field(default=12, ge=0)
    """With `demonstrations`: recorded steps that are learned from in each optimizer step, each time in another
    variation (`sdft.rows.recorded`). Rows of these, and of the student's own steps for which an action is known, are
    learned from the teacher where it gives the recorded action at least half of the probability, else by cross-entropy.
    0: no recorded steps, and a teacher scores what the student sampled; the default with `episodes`."""
    hindsight_episodes: tuple[str, ...] = ()
    """Folders of the agent's own successful episodes from before, for the context `hindsight`."""
    enrich: EnrichSettings | None = None
    """Have a large model explain what the teacher is told; None: not."""
    steps: int = Field(default=28, ge=1)
    """Optimizer steps."""
    episodes_per_step: int = Field(default=10, ge=1)
    """Episodes that make one batch."""
    max_rows: int = Field(default=10, ge=1)
    """Most steps of those episodes that are learned from at once."""
    lead: float = Field(default=0.0, ge=0, lt=1)
    """Probability with which the oracle takes an episode's first step, and each further one after its own: the student
    takes over there, and so meets the later steps of a task before it can do the earlier ones. Nothing is learned
    from the oracle's steps; tasks without an oracle are begun by the student."""
    max_episode_steps: int = Field(default=3, ge=1)
    """Length at which a training episode is cut; a beginner repeats itself after that."""
    seed: int = Field(default=0, ge=0)
    """Of everything random; training episodes have seeds from `first_episode_seed` on."""
    first_episode_seed: int = Field(default=0, ge=0)
    """Seed of the first training episode; the others count up, task by task."""
    learning_rate: float = Field(default=1e-3, ge=0)
    """Peak learning rate of AdamW, reached after the warm-up, then falling linearly to 0; 5e-4 with `start_from`."""
    warmup_steps: int = Field(default=3, ge=0)
    """Optimizer steps of linear warm-up, the first of them at rate 0; at most a quarter of all; 10 with
    `start_from`."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradient norm at which gradients are clipped."""
    lora_rank: int = Field(default=16, ge=1)
    """Rank of the adapter; its scale is alpha / rank with alpha = 2 * rank."""
    lora_targets: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    )  # fmt: skip
    """Modules that get an adapter: all linear layers."""
    lora_vision: bool = False
    """Adapt modules of these names outside the language model, too: in a vision tower, for example."""
    teacher: Literal["auto", "ema", "base", "live"] = "auto"
    """Whose weights teach: an average of the student's, the frozen model's, or the student's own. `auto` is the
    average; in a run that starts from an adapter (`start_from`) the frozen model, in rows in which it does what it is
    told and the average doesn't (`sdft.teacher.following`)."""
    teacher_rate: float = Field(default=0.005, ge=0, le=1)
    """Share of the student that goes into the teacher each time that it follows."""
    teacher_sees: Sight = "page"
    """What the teacher is shown besides the action that it is told: `all` that the student is; `page`, that without
    what was done before and without the actions behind the page's elements, which lead it astray; `goal`, nothing of
    the page. Where it is told no action it sees all."""
    teacher_wording: str = DEMONSTRATION
    """How the teacher is told an action, which stands for `{action}`."""
    teacher_temperature: float = Field(default=0.5, gt=0)
    """Sharpens (below 1) the teacher's distribution, relative to the student's temperature."""
    divergence: float = Field(default=0.0, ge=0, le=1)
    """0: forward KL(teacher || student); 1: reverse; between: interpolated."""
    importance_clip: float | None = Field(default=None, gt=0)
    """Weigh tokens by how much likelier the student has become to sample them, at most by this; None: not at all.
    Of use where samples are older than the student."""
    rehearsal: float = Field(default=0.0, ge=0)
    """Weight of the divergence from the untrained model on texts that it wrote itself (`sdft.loss.rehearsal`); 0:
    none."""
    rehearsal_rows: int = Field(default=2, ge=1)
    """Such texts of 128 tokens in each optimizer step."""
    practice: float | None = Field(default=None, ge=0)
    """Weight of the divergence from the adapter that the run starts from (`start_from`), on that adapter's own steps in
    the tasks that it has learned (`sdft.loss.practice`); 0: none. None: 1, where there are such tasks and it can do
    them. Without effect in a run that begins anew."""
    practice_rows: int = Field(default=4, ge=1)
    """Such steps in each optimizer step."""
    min_confidence: float = Field(default=0.0, ge=0, le=1)
    """Learn nothing from tokens for which the teacher's likeliest choice has less probability."""
    success_gate: bool = False
    """Learn only from episodes that were solved, and from steps that earned a reward; where a batch has none, student
    and teacher stay as they are. With `episodes` it is always so."""
    least_first_divergence: float = Field(default=1e-3, ge=0)
    """Stop before the first step when the teacher with its demonstration differs less (nats a token) from the student:
    there is nothing to teach."""
    temperature: float = Field(default=1.0, gt=0)
    """At which the student samples its actions in training."""
    max_new_tokens: int = Field(default=48, ge=1)
    """Most tokens of an action."""
    labels: Labels = False
    """Replies name what they act on before its id (`true`), or only a field, before what goes into it (`"fields"`). The
    adapter's do so, too."""
    texts: Texts = "free"
    """What replies may fill in or type: anything, or only what the goal says (`"goal"`). The adapter's too."""
    max_prompt_tokens: int = Field(default=1024, ge=1)
    """Most tokens of the student's prompt; the page is cut to fit. The teacher's is longer by the demonstration."""
    prompt: PromptName = "compact"
    """What writes the prompts: `compact`, `chat`, or `file.py:Class` of your own. The adapter acts under it."""
    instructions: str = ""
    """Words of your own for the prompt; the adapter acts under them."""
    actions: Annotated[tuple[str, ...], AfterValidator(check_kinds)] = ("click", "fill", "select")
    """Kinds of actions offered to the agent."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Optimizer steps between checkpoints."""
    rollouts: RolloutSettings = RolloutSettings()
    """Where episodes run and how their actions are sampled: workers on a Ray cluster, batches, limits of time."""
    evaluate_every: int = Field(default=0, ge=0)
    """Optimizer steps between evaluations on held-out episodes, before the first and after the last step too; 0: none.
    With evaluations the best state is what the run leaves, and a fall is undone (`max_success_fall`,
    `max_perplexity_rise`). With `episodes` it is the share of recorded actions that the student does greedily at
    held-out states, every 10 steps by default; with 0 nothing is held out."""
    evaluate_seeds: int = Field(default=8, ge=1)
    """Held-out episodes a task, or states with `episodes`, the same in every evaluation."""
    first_evaluation_seed: int = 1_000_000
    """Seed of the first of them. Training must not reach it; benchmarks' seeds begin at 2,000,000."""
    evaluate_tasks: Tasks = ()
    """Tasks to evaluate besides `tasks`; they count as much."""
    stop_at_success: float | None = Field(default=None, gt=0, le=1)
    """End at the first evaluation, after a step, whose success is at least this; with `episodes`, whose agreement is.
    None: after the last step. The learning rate falls as if all steps were made."""
    max_success_fall: float = Field(default=0.2, ge=0)
    """Go back to the best state when mean held-out success is below its by more than this."""
    max_perplexity_rise: float = Field(default=0.1, ge=0)
    """Go back to the best state when perplexity on general text is above the base model's by more than this share."""
    rollback_learning_rate: float = Field(default=0.5, gt=0, le=1)
    """What the learning rate is multiplied by at every return to the best state."""
    max_rollbacks: int = Field(default=3, ge=1)
    """Stop the run at the return to the best state that is this one in number."""
    environment: EnvironmentSettings = EnvironmentSettings()
    """Whose browser, what it may do and who is asked, in episodes of this run; secrets by name only."""
    report_to: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = ()
    """Where metrics go besides `metrics.jsonl`; each needs its package."""
    snapshot_every: int = Field(default=0, ge=0)
    """Optimizer steps between adapters that are kept, in `snapshots/`, to see how learning went; 0: none."""
    minutes: float | None = Field(default=None, gt=0)
    """Wall-clock after which training stops with the step it is in; None: after the last step. The learning rate falls
    as if all steps were made."""
    start_from: Path | None = None
    """Folder of the adapter to train further, with its rank and targets; None: a new one."""

    def __new__(cls, **given: Any) -> Self:
        """Answer settings that earlier versions had; a validator before the others would be in the way of strict JSON.

        Raises:
            ValueError: there is one.
        """
        if told := told_of_settings(given):
            raise ValueError(told)
        return super().__new__(cls)

    @property
    def teacher_weights(self) -> Literal["ema", "base", "live", "chosen"]:
        """Whose weights teach in this run; `chosen`: row by row."""
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
        """Is nothing played?"""
        return bool(self.episodes)

    @property
    def looks_back(self) -> bool:
        """Do episodes teach offline what worked later where something went wrong, too?"""
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
                "the context \"feedback\" can't be had offline: what the student's own action leads to is not recorded"
            )
        if self.contexts not in (("demonstration",), ("demonstration", "hindsight")):
            raise ValueError(
                'offline the teacher is told what was done: contexts is ["demonstration"], or left out, or '
                '["demonstration", "hindsight"]'
            )
        names = ("tasks", "demonstrations", "evaluate_tasks", "lead", "practice", "live", "hindsight_episodes")
        played = [name for name in names if getattr(self, name)]
        if self.rollouts.workers:
            played.append("rollouts.workers")
        if played:
            raise ValueError(f"episodes are learned from offline, and nothing is played: leave out {', '.join(played)}")
        return self

    @model_validator(mode="after")
    def _something_to_learn(self) -> TrainSettings:
        if not (self.tasks or self.demonstrations or self.episodes):
            raise ValueError("there is nothing to learn: give tasks, demonstrations or episodes")
        if ("demonstration" in self.contexts) != bool(self.demonstrations or self.episodes):
            raise ValueError(
                'demonstrations and the context "demonstration" need each other: contexts=["demonstration", ...] reads '
                "them, others don't"
            )
        if (self.demonstrations or self.episodes) and self.recorded_rows and self.importance_clip is not None:
            raise ValueError("importance_clip weighs what the student sampled: set recorded_rows=0, or leave it out")
        if self.enrich is not None and (self.role == "verifier" or not {*self.enrich.contexts} & {*self.contexts}):
            what = "a verifier has no teacher" if self.role == "verifier" else f"contexts is {list(self.contexts)}"
            raise ValueError(f"nothing of what enrich explains would be learned: {what}")
        if self.hindsight_episodes and "hindsight" not in self.contexts:
            raise ValueError('hindsight_episodes are for the context "hindsight": name it in contexts, or omit them')
        if self.evaluate_tasks and not self.evaluate_every:
            raise ValueError("evaluate_tasks are evaluated every evaluate_every steps: set that, too")
        if self.stop_at_success is not None and not self.evaluate_every:
            raise ValueError("stop_at_success is looked at every evaluate_every steps: set that, too")
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
            raise ValueError("a profile is for one episode at a time, not for workers: storage_state gives its logins")
        return self

    @model_validator(mode="after")
    def _heldout_is_held_out(self) -> TrainSettings:
        trained = self.episode_seeds
        judged = range(self.first_evaluation_seed, self.first_evaluation_seed + self.evaluate_seeds)
        if self.tasks and self.evaluate_every and overlap(trained, judged):
            raise ValueError(
                f"the seeds of evaluation ({judged.start} to {judged.stop - 1}) are among those of "
                f"training ({trained.start} to {trained.stop - 1}): set first_evaluation_seed elsewhere"
            )
        return self


def sdft_only(settings: TrainSettings) -> list[str]:
    """Return the names of the settings by which a run asks for what only SDFT can do."""
    asked = settings.evaluate_every and "evaluate_every" in settings.model_fields_set  # not by `episodes`' defaults
    named = {"rollouts.workers": settings.rollouts.workers, "evaluate_every": asked, "lead": settings.lead}
    return [name for name, value in named.items() if value]


def fields() -> dict[str, FieldInfo]:
    """Return the settings of a run by the names that `--set` has for them, those of rollouts as `rollouts.workers`."""
    own = {name: field for name, field in TrainSettings.model_fields.items() if name != "rollouts"}
    return {**own, **{f"rollouts.{name}": field for name, field in RolloutSettings.model_fields.items()}}


class GRPOSettings(TrainSettings):
    """What a GRPO run does. What concerns SDFT's teacher and its divergence is without effect."""

    group_size: int = Field(default=5, ge=2)
    """Episodes of the same task and seed that are compared with each other."""

    @model_validator(mode="after")
    def _whole_groups(self) -> GRPOSettings:
        if self.episodes_per_step % self.group_size:
            raise ValueError(
                f"episodes_per_step must be a multiple of group_size: {self.episodes_per_step} is not one of "
                f"{self.group_size}"
            )
        return self


def from_earlier(saved: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return settings that this version or an earlier one saved, by the names of this one.

    Raises:
        ValueError: a setting that was removed has an effect.
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
                f"{path}: the run was begun with {name}={json.dumps(saved[name])}, which this version can't do. Finish "
                "it with the version that began it, or begin another run in another folder."
            )
    rollouts = {new.removeprefix("rollouts."): saved[old] for old, new in SETTINGS.items() if old in saved}
    kept = {name: value for name, value in saved.items() if name not in SETTINGS and name not in REMOVED_SETTINGS}
    if saved.get("demonstrations"):
        kept = {"recorded_rows": 0, **kept}
    return {**kept, "rollouts": rollouts} if rollouts else kept
