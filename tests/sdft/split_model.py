"""Reads and trains a model that FSDP 2 splits over processes of this machine. Started by `test_cluster`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

from selfsurf.sdft.processes import unsharded
from selfsurf.sdft.teacher.weights import add_teacher, move_teacher, student_weights, teaching


def main(out: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, pad_token_id=2
    )
    model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=4, target_modules=["q_proj", "up_proj"]))
    add_teacher(model)
    ids = torch.arange(3, 12)[None]
    with torch.no_grad():
        expected = model(input_ids=ids).logits
    mesh = init_device_mesh("cpu", (2,))
    for layer in model.get_decoder().layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    read = []
    for _ in range(2):
        with unsharded(model), torch.no_grad():
            times = 1 + 3 * rank  # as many as this process needs
            read.extend(model(input_ids=ids).logits for _ in range(times))
        with torch.no_grad(), teaching(model):
            teacher = model(input_ids=ids).logits
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        move_teacher(model, 0.25)
    with unsharded(model):
        adapter = {name: p.detach().clone() for name, p in model.named_parameters() if "lora_" in name}
        kept = student_weights(model)
    left = {"expected": expected, "read": read, "teacher": teacher, "adapter": adapter, "kept": kept}
    torch.save(left, out / f"left_{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
