"""An adapter from elsewhere is a plain LoRA adapter, or is refused before anything loads it."""

import json

import numpy as np
import pytest

from selfsurf.agents.adapters.foreign import check_foreign
from selfsurf.agents.adapters.identity import CONFIG, PEFT_WEIGHTS, AdapterError
from selfsurf.agents.adapters.tensors import Tensor, write

PLAIN = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"],
         "bias": "none", "init_lora_weights": True, "modules_to_save": None, "rank_pattern": {}, "use_dora": False}  # fmt: skip
NAME = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"


def adapter(folder, values=0.5, name=NAME, rank=2, dtype=np.float32, **changed):
    config = {key: value for key, value in {**PLAIN, **changed}.items() if value != "left out"}
    (folder / CONFIG).write_text(json.dumps(config))
    kinds = {np.float32: "F32", np.float16: "F16", np.uint16: "BF16"}
    matrices = {"A": np.full((rank, 3), values, dtype), "B": np.full((5, rank), values, dtype)}
    tensors = {name.format(key): Tensor(kinds[dtype], one.shape, one.tobytes()) for key, one in matrices.items()}
    write(folder / PEFT_WEIGHTS, tensors, {})
    return folder


@pytest.mark.parametrize(("dtype", "value"), [(np.float32, 0.5), (np.float16, 0.5), (np.uint16, 0x3F00)])
def test_a_plain_one_is_taken(tmp_path, dtype, value):
    check_foreign(adapter(tmp_path, value, dtype=dtype))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"r": 100_000_000}, "r can't be '100000000'"),
        ({"r": 3}, "has rank 2, but adapter_config.json says 3"),
        ({"r": True}, "r can't be"),
        ({"r": "left out"}, "r can't be 'None'"),
        ({"peft_type": "PROMPT_TUNING"}, "peft_type can't be 'PROMPT_TUNING'"),
        ({"lora_alpha": 1e300}, "lora_alpha can't be"),
        ({"target_modules": ".*"}, "target_modules can't be"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save can't be"),
        ({"init_lora_weights": "eva"}, "init_lora_weights can't be"),
        ({"use_dora": True}, "use_dora can't be"),
        ({"never_heard_of": 1}, "never_heard_of can't be"),
        ({"values": np.nan}, "values that are not finite"),
        ({"values": 0x7FC0, "dtype": np.uint16}, "values that are not finite"),
        ({"values": np.inf, "dtype": np.float16}, "values that are not finite"),
        ({"name": "base_model.model.lm_head.{}"}, "is not a matrix of a LoRA adapter"),
    ],
)
def test_anything_else_is_refused(tmp_path, changed, why):
    with pytest.raises(AdapterError, match=why):
        check_foreign(adapter(tmp_path, **changed))
