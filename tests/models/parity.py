"""Tiny random models of real architectures, for the parity of backends; an image has one size and 4 tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.models.vision import TEMPLATE


def save_llama(folder: Path, tokenizer_folder: Path, **rest: Any) -> Path:
    """A two-layer Llama with the rotary base of SmolLM2, which is not the default."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    config = LlamaConfig(**{**_text(len(tokenizer)), "rope_parameters": rope(100000.0), **rest})
    _randomise(LlamaForCausalLM(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_gemma3(folder: Path, tokenizer_folder: Path) -> Path:
    """A three-layer Gemma 3: every second layer sees all tokens, the others 16, each kind with its own rotary base."""
    import torch
    from transformers import AutoTokenizer, Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    config = Gemma3TextConfig(**{
        **_text(len(tokenizer)), "num_hidden_layers": 3, "head_dim": 16, "query_pre_attn_scalar": 16,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 16,
        "rope_parameters": {"full_attention": rope(300000.0), "sliding_attention": rope(5000.0)},
        "tie_word_embeddings": True,
    })  # fmt: skip
    _randomise(Gemma3ForCausalLM(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_idefics3(folder: Path, tokenizer_folder: Path) -> Path:
    """A two-layer Idefics3 (the architecture of SmolVLM): images of 32x32 pixels become 4 tokens."""
    import torch
    from transformers import AutoTokenizer, Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor
    from transformers.models.idefics3 import Idefics3ImageProcessorPil

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    images = Idefics3ImageProcessorPil(
        size={"longest_edge": 32}, max_image_size={"longest_edge": 32}, do_image_splitting=False
    )
    template = TEMPLATE.replace("IMAGE", "<image>")
    processor = Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=template)
    image = processor.tokenizer.convert_tokens_to_ids("<image>")
    config = Idefics3Config(
        text_config={"model_type": "llama", **_text(len(processor.tokenizer)), "rope_parameters": rope(100000.0)},
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": 32, "patch_size": 8,
        },
        image_token_id=image,
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )  # fmt: skip
    _randomise(Idefics3ForConditionalGeneration(config)).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_qwen2_5_vl(folder: Path, tokenizer_folder: Path) -> Path:
    """A two-layer Qwen2.5-VL: images of 56x56 pixels become 4 tokens."""
    import torch
    from transformers import AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
    from transformers.models.qwen2_vl import Qwen2VLImageProcessorPil

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    marks = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    start, end, image, video = tokenizer.convert_tokens_to_ids(marks)
    tokenizer.chat_template = TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    config = Qwen2_5_VLConfig(
        text_config={**_text(len(tokenizer)), "rope_parameters": {**rope(200000.0), "mrope_section": [2, 3, 3]}},
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 2, "out_hidden_size": 64,
            "fullatt_block_indexes": [1], "patch_size": 14, "window_size": 56,
        },
        image_token_id=image, video_token_id=video, vision_start_token_id=start, vision_end_token_id=end,
        tie_word_embeddings=False,
    )  # fmt: skip
    _randomise(Qwen2_5_VLForConditionalGeneration(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=56 * 56).save_pretrained(folder)
    return folder


def rope(theta: float) -> dict[str, Any]:
    """Rotary embedding settings as transformers 5 writes them."""
    return {"rope_theta": theta, "rope_type": "default"}


def _text(vocabulary: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    }  # fmt: skip


def _randomise(model: Any) -> Any:
    """Larger weights than at initialisation, so that positions and images move the logits."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.2)
    return model.eval()


VISION_PROMPTS = {
    save_idefics3: "<|im_start|>user\n<image>What is it?<|im_end|>\n<|im_start|>assistant\n",
    save_qwen2_5_vl: "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is it?<|im_end|>\n",
}
"""A prompt with one image for each vision model."""
