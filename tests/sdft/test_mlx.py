"""SDFT on MLX beside torch's: the same loss, gradient and adapter; a teacher that moves; exact resume; no torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from selfsurf.agents.adapters.identity import PEFT_WEIGHTS
from selfsurf.agents.scripted import OracleAgent
from selfsurf.sdft import TrainSettings, train
from selfsurf.sdft.measure import retention
from selfsurf.sdft.rollouts import Job, Rollouts
from selfsurf.sdft.rows.jobs import learned_offline
from selfsurf.sdft.rows.samples import Sample
from selfsurf.sdft.run.batches import Batches, StepRows
from selfsurf.sdft.run.checkpoint_files import last_step
from selfsurf.sdft.run.export import export
from tests.few import few
from tests.models.small import save_small, small_llama

pytestmark = pytest.mark.skipif(find_spec("mlx") is None or find_spec("mlx_lm") is None, reason="needs MLX")

ROOT = Path(__file__).parents[2]
FIGURES = {"tokens/generated": 1.0, "rollouts/seconds": 1.0, "tokens/learned": 1.0}
VOCABULARY = 300


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    """A tiny model of few tokens."""
    where = tmp_path_factory.mktemp("few_tokens")
    small_llama(tokenizer, vocab_size=VOCABULARY, tie_word_embeddings=True, initializer_range=0.2).save_pretrained(
        where
    )
    tokenizer.save_pretrained(where)
    return where


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Episodes to learn from offline."""
    where = tmp_path_factory.mktemp("shown")
    with Rollouts(2) as rollouts:
        rollouts.run(OracleAgent(), [Job("MiniWoB/click-option-v0", seed) for seed in range(3)], folder=where)
    return where


def rows(count=5):
    """Rows of different lengths, two of which begin alike."""
    rng = np.random.default_rng(0)

    def ids(most):
        return [int(one) for one in rng.integers(3, VOCABULARY, rng.integers(2, most))]

    made = [(ids(30), ids(30), ids(9)) for _ in range(count)]
    made[1] = (made[0][0] + made[1][0], *made[1][1:])
    return [Sample("it", prompt, told, done, [-1.0] * len(done), [], None, None) for prompt, told, done in made]


@pytest.fixture
def both(folder, tmp_path, monkeypatch):
    """Makes the two trainers of a run that learns from the same rows in every step, from the same adapter."""
    import mlx.core as mx
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.mlx.student import load, student
    from selfsurf.sdft.mlx.trainer import MLXTrainer
    from selfsurf.sdft.run.model import lora_config
    from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer

    learned = rows()
    drawn = StepRows(learned, None, FIGURES)

    def make(*, recorded=False, **changes):
        settings = TrainSettings(
            tasks=("MiniWoB/click-test-2-v0",), model=str(folder), episodes_per_step=3, lora_rank=4, warmup_steps=2,
            teacher_rate=0.1, least_first_divergence=0.0, **{"steps": 20, "learning_rate": 5e-3, **changes},
        )  # fmt: skip
        shown = rows(3) if recorded is True else recorded
        now = StepRows(drawn.rows, shown, FIGURES) if recorded else drawn
        monkeypatch.setattr(Batches, "draw", lambda *_: now)
        jobs = [Job("it", number) for number in range(3 * settings.steps)]
        policy = TransformersPolicy(folder, dtype="float32", device="cpu")
        theirs = EpisodeSDFTTrainer(
            settings, tmp_path / "torch", model=policy.model, processing_class=policy.tokenizer, jobs=jobs,
            rollouts=Rollouts(), peft_config=lora_config(policy.model, settings),
        )  # fmt: skip
        theirs.recorded_rows = bool(recorded)
        matrices = {name: one for name, one in theirs.model.named_parameters() if ".default." in name}
        with torch.no_grad():
            for name, one in matrices.items():
                if "lora_B" in name and settings.steps == 1:
                    one.normal_(0.0, 0.2)  # else the gradient of A is zero
        made = student(load(settings), settings)["model"]
        made.put({name: mx.array(one) for name, one in as_mlx(matrices).items()})
        ours = MLXTrainer(settings, tmp_path / "mlx", model=made, jobs=jobs, rollouts=Rollouts())
        if made.teacher:
            made.teacher = {name: mx.array(one) for name, one in as_mlx(teacher_of(theirs)).items()}
        return theirs, ours, now

    return make


def as_mlx(matrices):
    """PEFT's parameters, or their gradients, by MLX's names."""
    found = {}
    for name, one in matrices.items():
        module, _, side = name.removeprefix("base_model.model.").removesuffix(".default.weight").rpartition(".lora_")
        found[f"{module}.lora_{side.lower()}"] = one.detach().numpy().T.copy()
    return found


def teacher_of(trainer):
    named = trainer.model.named_parameters()
    return {name.replace(".teacher.", ".default."): one for name, one in named if ".teacher." in name}


def flat(weights, side=""):
    return np.concatenate([np.asarray(weights[name]).ravel() for name in sorted(weights) if name.endswith(side)])


def cosine(one, other):
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize(
    "changes",
    few(1, [
        {}, {"divergence": 0.5, "teacher": "base", "temperature": 0.8, "importance_clip": 1.1},
        {"recorded": True, "teacher": "live", "divergence": 1.0, "min_confidence": 0.05},
    ]),
)  # fmt: skip
def test_loss_and_gradient_are_torchs(both, changes):
    check_that_they_agree(both, changes)


def test_recorded_rows_are_learned_from_a_teacher_that_follows_as_by_torch(both):
    _, ours, drawn = both(steps=1, recorded=True, teacher_temperature=0.02)
    row, *others = drawn.shown
    reply: list[int] = []
    for _ in range(4):  # what the teacher itself would write
        asked = replace(row, completion_ids=[*reply, 0])
        reply.append(int(ours.objective._teacher([asked], "ema")[0, -1].argmax()))
    shown = [replace(row, completion_ids=reply), *others]
    figures = check_that_they_agree(
        both, {"recorded": shown, "teacher_temperature": 0.02, "divergence": 0.5, "min_confidence": 0.6}
    )
    assert figures["recorded/distilled"] == pytest.approx(1 / 3)


def test_rows_that_no_teacher_follows_are_left_out_as_by_torch(both, monkeypatch):
    def told(_, rows):  # every other row was told an action
        return [([0], [row.completion_ids[0]]) if place % 2 else ([], []) for place, row in enumerate(rows)]

    monkeypatch.setattr(Batches, "places", told)
    monkeypatch.setattr(TrainSettings, "teacher_weights", "chosen")  # as where a run goes on from an adapter
    figures = check_that_they_agree(both, {"min_confidence": 0.1})
    assert figures["teacher/unheeded"] == 2
    assert figures["gate/confidence"] > 0
    assert figures["teacher/base"] == 0, "at the start the average is the untrained model"


def check_that_they_agree(both, changes):
    theirs, ours, drawn = both(steps=1, **changes)
    inputs = theirs._prepare_training_batch([])
    expected = theirs.compute_loss(theirs.model, inputs)
    expected.backward()
    loss, gradient, figures = ours.objective.gradient(drawn, {})
    assert abs(loss - float(expected.detach())) < 1e-5
    wanted = as_mlx({name: one.grad for name, one in theirs.model.named_parameters() if ".default." in name})
    assert wanted.keys() == gradient.keys()
    for name, one in wanted.items():
        assert np.abs(np.array(gradient[name]) - one).max() < 1e-4 * np.abs(one).max(), name
    columns = {name: sum(values) / len(values) for name, values in theirs._metrics.items() if name not in FIGURES}
    assert {name: pytest.approx(value, rel=1e-3, abs=1e-6) for name, value in columns.items()} == figures
    return figures


@pytest.mark.slow
def test_twenty_steps_leave_torchs_adapter(both):
    theirs, ours, _ = both()
    start = {name: np.array(one) for name, one in ours.model.weights.items()}
    theirs.train()
    ours.train()
    wanted = as_mlx({name: one for name, one in theirs.model.named_parameters() if ".default." in name})
    found = {name: np.array(one) for name, one in ours.model.weights.items()}
    assert cosine(flat(wanted, "_b"), flat(found, "_b")) > 0.999
    moved = [{name: one[name] - start[name] for name in start} for one in (wanted, found)]
    assert cosine(*(flat(one, "_a") for one in moved)) > 0.999
    assert cosine(flat(as_mlx(teacher_of(theirs)), "_b"), flat(ours.model.teacher, "_b")) > 0.999


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform == "linux" and not Path("/usr/bin/g++").exists(), reason="MLX compiles by g++ here")
def test_a_compiled_step_follows_teacher_and_student(both):
    import mlx.core as mx

    from selfsurf.sdft.mlx.objective import Objective

    _, ours, drawn = both(steps=1)
    compiled = Objective(ours.model, ours.batches, compiled=True)
    before = compiled.gradient(drawn, {})[0]
    for moved in ("teacher", "weights"):
        weights = getattr(ours.model, moved)
        setattr(ours.model, moved, {name: one + 0.1 for name, one in weights.items()})
        after, gradient, _ = compiled.gradient(drawn, {})
        expected, wanted, _ = ours.objective.gradient(drawn, {})
        assert abs(after - before) > 1e-3
        assert after == pytest.approx(expected, abs=1e-5)
        assert all(mx.allclose(gradient[name], one, rtol=1e-3, atol=1e-5) for name, one in wanted.items())
        before = after


SMALL = {
    "episodes_per_step": 2, "max_rows": 2, "lora_rank": 4, "least_first_divergence": 0.0, "warmup_steps": 0,
    "learning_rate": 5e-3, "evaluate_every": 0, "max_prompt_tokens": 300,
}  # fmt: skip

NO_TORCH = """
import sys
for name in ("torch", "peft", "accelerate", "trl", "datasets", "bitsandbytes"):
    sys.modules[name] = None
from selfsurf.scripts.cli import app
app(sys.argv[1:])
"""


@pytest.mark.timeout(600)
def test_it_trains_where_there_is_no_torch_and_leaves_both_forms(saved, shown, tmp_path):
    from selfsurf.agents.adapters import tensors

    base = saved(save_small, tie_word_embeddings=True)
    more = [part for name, value in SMALL.items() for part in ("--set", f"{name}={json.dumps(value)}")]
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH, "train", "--episodes", str(shown), "--offline", "--model", str(base),
         "--steps", "1", "--out", "run", "--json", *more],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Learning with MLX: torch is not installed." in " ".join(done.stderr.split())
    told = json.loads(done.stdout)
    assert (told["adapter"], told["mlx_adapter"]) == ("run/adapter", "adapters/local")
    peft = tensors.read(tmp_path / "run/adapter" / PEFT_WEIGHTS)
    mlx = tensors.read(tmp_path / "adapters/local/adapters.safetensors")
    name = "model.layers.0.self_attn.q_proj"
    assert peft[f"base_model.model.{name}.lora_B.weight"] == mlx[f"{name}.lora_b"].transposed()
    assert any(mlx[f"{name}.lora_b"].data), "something was learned"
    before = (tmp_path / "run/adapter" / PEFT_WEIGHTS).read_bytes()
    shutil.rmtree(tmp_path / "run/adapter")
    assert export(tmp_path / "run") == (tmp_path / "run/adapter", 1)
    assert (tmp_path / "run/adapter" / PEFT_WEIGHTS).read_bytes() == before


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_interrupted_run_ends_as_an_unbroken_one(saved, shown, tmp_path, monkeypatch):
    from selfsurf.sdft.mlx import forgetting

    base = saved(save_small, tie_word_embeddings=True)
    more = {**SMALL, "steps": 4, "evaluate_every": 3, "evaluate_seeds": 1, "checkpoint_every": 10, "rehearsal": 0.1,
            "rollouts": {"batch": 1}, "max_perplexity_rise": 1e9, "recorded_rows": 1}  # fmt: skip
    settings = TrainSettings(**{**learned_offline([shown]), **more, "model": str(base)})
    texts = forgetting.own_texts
    monkeypatch.setattr(forgetting, "own_texts", lambda policy, seed, rows: texts(policy, seed, min(rows, 4), length=8))
    monkeypatch.setattr(retention, "general_text", lambda: "A short text about a table, a chair and some rain.")
    whole = train(settings, tmp_path / "whole", backend="mlx")
    assert {"best", "base"} <= whole["evaluation"].keys()
    draw = Batches.draw

    def interrupted(self, number, jobs):
        if number == 2:
            raise KeyboardInterrupt
        return draw(self, number, jobs)

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "draw", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(settings, tmp_path / "broken", backend="mlx")
    assert last_step(tmp_path / "broken") == 2
    with pytest.raises(ValueError, match="holds a run of mlx: resume it with"):
        train(settings, tmp_path / "broken", backend="torch", resume=True)
    train(settings, tmp_path / "broken", backend="mlx", resume=True)
    for name in (
        f"adapter/{PEFT_WEIGHTS}",
        *(f"checkpoints/checkpoint-4/{file}.safetensors" for file in ("adapters", "teacher", "optimizer")),
    ):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes(), name
    lines = [(tmp_path / run / "metrics.jsonl").read_text().splitlines() for run in ("whole", "broken")]
    losses = [[json.loads(line).get("loss") for line in each] for each in lines]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 5


def test_the_trainer_needs_no_torch():
    code = NO_TORCH.replace("from selfsurf.scripts.cli import app\napp(sys.argv[1:])", "") + (
        "from selfsurf.sdft import train, TrainSettings, NothingToTeach\n"
        "from selfsurf.sdft.mlx.library import mlx_library\nprint(mlx_library().name)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("mlx\n", 0), done.stderr


@pytest.fixture(scope="module")
def four_bits(folder, tmp_path_factory):
    """The tiny model as `mlx_lm convert -q` writes it."""
    from mlx_lm import convert

    where = tmp_path_factory.mktemp("quantised") / "4bit"
    convert(str(folder), mlx_path=str(where), quantize=True, q_bits=4, q_group_size=32)
    return where


def test_a_base_in_4_bits_takes_its_bases_adapter_and_is_trained_on(folder, four_bits, tmp_path, caplog):
    import mlx.core as mx

    from selfsurf.agents.adapters.identity import WrongBase, check_base, identity, read_about, write_about
    from selfsurf.agents.policies.mlx.policy import MLXPolicy
    from selfsurf.sdft.mlx.student import load, student
    from tests.models.adapters import save_random_adapter

    adapter = save_random_adapter(folder, tmp_path / "adapter", lora_dropout=0.0)
    about = identity(str(folder), folder)
    write_about(adapter, about)
    policy = MLXPolicy(four_bits, adapter=adapter)
    assert "lora_b" in policy.model["model"].layers[0].self_attn.q_proj
    layers = {type(module).__name__ for _, module in policy.model.named_modules()}
    assert mx.metal.is_available() or ("is quantised" in caplog.text and not any("Quantized" in one for one in layers))
    older = {name: value for name, value in about.items() if name != "base_model_vectors_sha256"}
    write_about(adapter, older)
    check_base(adapter, four_bits)  # its own base is on this machine
    write_about(adapter, {**older, "base_model": "elsewhere/else"})
    with pytest.raises(WrongBase):
        check_base(adapter, four_bits)
    write_about(adapter, {**about, "base_model_vectors_sha256": "0"})
    with pytest.raises(WrongBase):
        MLXPolicy(four_bits, adapter=adapter)
    settings = TrainSettings(tasks=("MiniWoB/click-test-2-v0",), model=str(four_bits), lora_rank=4)
    made = student(load(settings), settings)["model"]
    (tmp_path / "made").mkdir()
    made.save_pretrained(str(tmp_path / "made"))
    assert read_about(tmp_path / "made")["base_model_bits"] == "4"
    check_base(tmp_path / "made", folder)  # and the other way round


def test_train_takes_what_the_machine_has_and_says_why(monkeypatch, tmp_path):
    from selfsurf.scripts.training import backends

    there = {"mlx_lm", "torch"}
    monkeypatch.setattr(backends, "find_spec", lambda name: name if name in there else None)
    monkeypatch.setattr(backends, "is_apple_silicon", lambda: True)
    assert backends.chosen_backend("auto")[0] == "mlx"
    assert backends.chosen_backend("torch")[0] == "torch"
    monkeypatch.setattr(backends, "is_apple_silicon", lambda: False)
    assert backends.chosen_backend("auto") == ("torch", "MLX is the default on Apple silicon only")
    there.remove("torch")
    assert backends.chosen_backend("auto") == ("mlx", "torch is not installed")
    (tmp_path / "run/checkpoints/checkpoint-2").mkdir(parents=True)
    assert backends.chosen_backend("auto", tmp_path / "run") == ("torch", "the run began with it")
    (tmp_path / "run/checkpoints/checkpoint-2/adapters.safetensors").touch()
    assert backends.chosen_backend("auto", tmp_path / "run")[0] == "mlx"
    with pytest.raises(ValueError, match=r"run holds something other than an adapter"):
        backends.check_replaceable(tmp_path / "run")
    backends.check_replaceable(tmp_path / "new")


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"quantization": "nf4"}, "mlx_lm convert -q"), ({"rollouts": {"workers": 1}}, "Workers sample with torch")],
)
def test_what_only_torch_does_is_refused_before_anything_is_loaded(folder, changes, why):
    from selfsurf.sdft.mlx.library import check_mlx

    given = {"tasks": ("MiniWoB/click-test-2-v0",), "model": str(folder)}
    check_mlx(TrainSettings(**given))
    with pytest.raises(ValueError, match=why):
        check_mlx(TrainSettings(**given, **changes))
