"""Tiny vision-language models of random weights, each a folder like a real one: model, tokenizer, processor, template.

The tokenizer is the small real model's, with the image tokens that the family's processor asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}IMAGE{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def idefics3(folder: Path, tokenizer_folder: Path) -> Path:
    """Idefics3, the architecture of SmolVLM. Images are cut into tiles of 32x32 pixels, of 4 tokens each."""
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor
    from transformers.models.idefics3 import Idefics3ImageProcessorPil

    tokenizer = _tokenizer(tokenizer_folder)
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    tokenizer.add_tokens(["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *tiles])
    images = Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    processor = Idefics3Processor(
        images, tokenizer, image_seq_len=4, chat_template=TEMPLATE.replace("IMAGE", "<image>")
    )
    config = Idefics3Config(
        text_config={"model_type": "llama", **_text(len(tokenizer))},
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": 32, "patch_size": 8,
        },
        image_token_id=processor.image_token_id,
        scale_factor=2,
        pad_token_id=2,
        tie_word_embeddings=False,
    )  # fmt: skip
    return _save(Idefics3ForConditionalGeneration, config, processor, folder)


def qwen2_5_vl(folder: Path, tokenizer_folder: Path) -> Path:
    """Qwen2.5-VL, whose positions have three dimensions. An image has a token for each 28x28 pixels, 24 at most."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
    from transformers.models.qwen2_vl import Qwen2VLImageProcessorPil

    tokenizer = _tokenizer(tokenizer_folder)
    marks = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer.add_tokens(marks)
    start, end, image, video = tokenizer.convert_tokens_to_ids(marks)
    tokenizer.chat_template = TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
    config = Qwen2_5_VLConfig(
        text_config={**_text(len(tokenizer)), "rope_parameters": rope},
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 2, "out_hidden_size": 64,
            "fullatt_block_indexes": [1], "window_size": 56,
        },
        image_token_id=image, video_token_id=video, vision_start_token_id=start, vision_end_token_id=end,
        tie_word_embeddings=False,
    )  # fmt: skip
    images = Qwen2VLImageProcessorPil(size={"shortest_edge": 4 * 28 * 28, "longest_edge": 24 * 28 * 28})
    folder.mkdir(parents=True)
    images.save_pretrained(folder)
    return _save(Qwen2_5_VLForConditionalGeneration, config, tokenizer, folder)


def gemma3(folder: Path, tokenizer_folder: Path) -> Path:
    """Gemma 3, whose image tokens see each other in both directions, and whose window slides. 4 tokens an image."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3Processor
    from transformers.models.gemma3 import Gemma3ImageProcessorPil

    marks = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    tokenizer = _tokenizer(tokenizer_folder, extra_special_tokens=marks)
    start, end, image = tokenizer.convert_tokens_to_ids(list(marks.values()))
    images = Gemma3ImageProcessorPil(size={"height": 32, "width": 32})
    template = TEMPLATE.replace("IMAGE", marks["boi_token"])
    processor = Gemma3Processor(images, tokenizer, chat_template=template, image_seq_length=4)
    config = Gemma3Config(
        text_config={
            **_text(len(tokenizer)), "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 24,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": 32, "patch_size": 8, "vision_use_head": False,
        },
        mm_tokens_per_image=4, boi_token_index=start, eoi_token_index=end, image_token_index=image,
        tie_word_embeddings=False,
    )  # fmt: skip
    return _save(Gemma3ForConditionalGeneration, config, processor, folder)


FAMILIES: dict[str, Callable[[Path, Path], Path]] = {"idefics3": idefics3, "qwen2_5_vl": qwen2_5_vl, "gemma3": gemma3}
"""How to write each family's folder, given where it is to be and the folder of a tokenizer."""


def _tokenizer(folder: Path, **rest: Any) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, **rest)


def _text(vocabulary: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "tie_word_embeddings": False,
    }  # fmt: skip


def _save(kind: Any, config: Any, processor: Any, folder: Path) -> Path:
    """Write a model of larger weights than at initialisation, so that positions and images move its choices."""
    import torch

    torch.manual_seed(0)
    model = kind(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.2)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
