"""Trains a tiny model as one of several processes, and leaves what this one did. Started by `test_cluster`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from selfsurf.agents import model_files
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.sdft.processes import is_first
from selfsurf.sdft.rows.jobs import training_jobs
from selfsurf.sdft.run import model as written
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.trainers import batches
from selfsurf.sdft.trainers.train import train

SETTINGS = TrainSettings(
    tasks=("MiniWoB/click-test-2-v0", "MiniWoB/click-option-v0"), steps=3, episodes_per_step=4, max_rows=4,
    max_episode_steps=1, lora_rank=4, learning_rate=5e-3, warmup_steps=0, checkpoint_every=2, teacher_rate=0.1,
    rehearsal=0.1, snapshot_every=1, least_first_divergence=0.0,
)  # fmt: skip


def main(out: Path, interrupted: bool) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_files.pull("smollm2"))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, pad_token_id=2,
        tie_word_embeddings=True,
    )  # fmt: skip
    jobs: list[list[tuple[str, int]]] = []
    rows: list[int] = []
    samples_of = batches.samples_of
    wrote: list[Path] = []
    save_adapter = written.save_adapter

    def watched(results: Any, *more: Any, **options: Any) -> Any:
        jobs.append([(result.job.env_id, result.job.seed) for result in results])
        if not is_first() and len(jobs) == 2:
            for result in results:
                result.trainable = False
        if interrupted and not is_first():
            signal.raise_signal(signal.SIGINT)
        found = samples_of(results, *more, **options)
        rows.append(len(found))
        return found

    def saved(model: Any, folder: Path, about: Any) -> Path:
        wrote.append(folder)
        return save_adapter(model, folder, about)

    batches.samples_of = watched
    written.save_adapter = saved
    policy = TransformersPolicy(LlamaForCausalLM(config), tokenizer)
    left = out / f"left_{0 if is_first() else 1}.pt"
    try:
        model = train(SETTINGS, out / "run", policy=policy)["model"]
    except KeyboardInterrupt:
        torch.save({"rows": rows}, left)
        return
    found = {
        "jobs": jobs,
        "rows": rows,
        "all_jobs": [(job.env_id, job.seed) for job in training_jobs(SETTINGS)],
        "wrote": bool(wrote),
        "adapter": {name: value for name, value in model.state_dict().items() if "lora_" in name},
    }
    torch.save(found, left)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "interrupted" in sys.argv)
