"""A faster forward pass through PEFT's LoRA layers in training, in the precision of their input.

PEFT casts the input of every layer to the precision of the adapter, float32, and also adds the layer's output there;
for a bfloat16 model that takes longer than the layers themselves. Here the adapter's weights, which stay float32 for
the optimizer, are rounded to the model's precision at each use. Logits change by less than bfloat16's own rounding
error.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch


def make_lean(model: Any) -> None:
    """Use the faster forward pass in all plain LoRA layers on plain linear layers. Idempotent."""
    from peft.tuners.lora.layer import Linear

    for module in model.modules():
        if type(module) is Linear and type(module.base_layer) is torch.nn.Linear:
            module.forward = MethodType(_forward, module)


def _forward(layer: Any, x: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    active = [name for name in layer.active_adapters if name in layer.lora_A]
    if args or options or layer.disable_adapters or layer.merged or len(active) != 1 or not _plain(layer, active[0], x):
        result: torch.Tensor = type(layer).forward(layer, x, *args, **options)
        return result
    (name,) = active
    down, up = layer.lora_A[name].weight, layer.lora_B[name].weight
    base, scale = layer.base_layer, layer.scaling[name]
    if not torch.is_grad_enabled():
        return _sum(x, base.weight, base.bias, down.to(x.dtype), (up * scale).to(x.dtype))[0]
    sum_: torch.Tensor = _LeanLora.apply(x, base.weight, base.bias, down, up, scale)
    return sum_


def _sum(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, down: torch.Tensor, up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the layer's output, and the activations between the adapter's two matrices."""
    flat = x.reshape(-1, x.shape[-1])
    low = flat @ down.T
    sum_ = torch.nn.functional.linear(flat, weight, bias).addmm_(low, up.T)
    return sum_.view(*x.shape[:-1], -1), low


def _plain(layer: Any, name: str, x: torch.Tensor) -> bool:
    """Whether the adapter is just two matrices and the layer's weights are directly usable."""
    weight = layer.base_layer.weight
    return (
        not layer.lora_variant
        and isinstance(layer.lora_dropout[name], torch.nn.Identity)
        and layer.lora_A[name].bias is None
        and layer.lora_B[name].bias is None
        and weight.device == x.device  # not offloaded
        and not hasattr(weight, "ds_id")  # not partitioned by DeepSpeed, which gathers weights for whole modules only
        and not torch.is_autocast_enabled(x.device.type)
    )


class _LeanLora(torch.autograd.Function):
    """LoRA layer `x @ weight.T + bias + scale * (x @ down.T) @ up.T`, with gradients except for weight and bias."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, down: Any, up: Any, scale: float) -> Any:
        down, up = down.to(x.dtype), (up * scale).to(x.dtype)
        sum_, low = _sum(x, weight, bias, down, up)
        ctx.save_for_backward(x, weight, down, up, low)
        ctx.scale = scale
        return sum_

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, weight, down, up, low = ctx.saved_tensors
        of_sum = gradient.reshape(-1, len(weight))
        of_low = of_sum @ up
        of_x = (of_sum @ weight).addmm_(of_low, down).view_as(x) if ctx.needs_input_grad[0] else None
        of_down = (of_low.T @ x.reshape(-1, x.shape[-1])).float()
        of_up = (of_sum.T @ low).float() * ctx.scale
        return of_x, None, None, of_down, of_up, None
