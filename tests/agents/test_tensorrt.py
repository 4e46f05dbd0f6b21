"""TensorRT-LLM can't run here. Its classes are stood in for by ones with exactly its signatures, which write down what
they are given and answer with given tokens; everything before and after them is the real thing."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from selfsurf import agents
from selfsurf.agents.adapters.identity import WrongBase, identity, write_about
from selfsurf.agents.policy import Message, PolicyError

GRAMMAR = 'start: "{\\"click\\":" ID "}"\nID: /3|7/\n'
SCHEMA = {"type": "object", "properties": {"click": {"enum": [3, 7]}}, "required": ["click"]}
PAGE = [Message("system", "You act on pages."), Message("user", "Click Submit.")]


class LogprobMode(StrEnum):
    RAW = "raw"
    PROCESSED = "processed"


@dataclass(slots=True, kw_only=True)
class GuidedDecodingParams:
    json: Any = None
    regex: str | None = None
    grammar: str | None = None
    json_object: bool = False
    structural_tag: str | None = None


@dataclass(slots=True, kw_only=True)
class SamplingParams:
    """The fields of release 1.0 that are used here, and some neighbours."""

    end_id: int | None = None
    pad_id: int | None = None
    max_tokens: int = 32
    stop: Any = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    n: int = 1
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    temperature: float | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    guided_decoding: GuidedDecodingParams | None = None

    @property
    def greedy(self) -> bool:
        """TensorRT-LLM's `_greedy_decoding`, which does not look at the temperature."""
        return (self.top_k is None or self.top_k == 1) and (self.top_p is None or self.top_p == 0.0)


@dataclass(slots=True, kw_only=True)
class NewerSamplingParams(SamplingParams):
    logprobs_mode: LogprobMode = LogprobMode.RAW


@dataclass(slots=True)
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str = ""

    def __post_init__(self) -> None:
        if not Path(self.lora_path).exists():
            raise ValueError(f"lora_path ({self.lora_path}) does not exist.")


@dataclass
class LoraConfig:
    lora_dir: list[str] = field(default_factory=list)
    lora_ckpt_source: str = "hf"
    max_lora_rank: int = 64
    lora_target_modules: list[str] = field(default_factory=list)
    trtllm_modules_to_hf_modules: dict[str, str] = field(default_factory=dict)
    max_loras: int | None = None
    max_cpu_loras: int | None = None


@dataclass(slots=True)
class Logprob:
    logprob: float
    rank: int | None = None


class Engine:
    """The installation: what it was asked, and what it will answer."""

    def __init__(self) -> None:
        self.started: dict[str, Any] = {}
        self.calls: list[dict[str, Any]] = []
        self.loads: list[dict[str, Any]] = []
        self.answers: list[SimpleNamespace] = []
        self.error: Exception | None = None
        self.closed = False

    def answer(self, token_ids: Sequence[int], finish_reason: str | None = "stop", logprobs: Any = None) -> None:
        """Give the next request these tokens."""
        self.answers.append(
            SimpleNamespace(text="", token_ids=list(token_ids), finish_reason=finish_reason, logprobs=logprobs or [])
        )


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Puts the stand-in in the place of `tensorrt_llm`."""
    engine = Engine()

    class LLM:
        def __init__(
            self,
            model: str | Path,
            tokenizer: Any = None,
            tokenizer_mode: str = "auto",
            skip_tokenizer_init: bool = False,
            trust_remote_code: bool = False,
            tensor_parallel_size: int = 1,
            dtype: str = "auto",
            revision: str | None = None,
            tokenizer_revision: str | None = None,
            **kwargs: Any,
        ) -> None:
            unknown = set(kwargs) - {"guided_decoding_backend", "lora_config", "max_seq_len"}
            if unknown:
                raise ValueError(f"invalid arguments: {unknown}")
            if engine.error is not None:
                raise engine.error
            engine.started = {
                "model": model, "tokenizer": tokenizer, "tp": tensor_parallel_size, "dtype": dtype, **kwargs
            }  # fmt: skip

        def generate(
            self,
            inputs: Any,
            sampling_params: Any = None,
            use_tqdm: bool = True,
            lora_request: Any = None,
            prompt_adapter_request: Any = None,
            queries: Any = None,
        ) -> Any:
            engine.calls.append({"inputs": inputs, "sampling": sampling_params, "lora": lora_request, "tqdm": use_tqdm})
            if engine.error is not None:
                raise engine.error
            return [
                SimpleNamespace(
                    prompt_token_ids=one.get("prompt_token_ids", [1, 2, 3]), outputs=[engine.answers.pop(0)]
                )
                for one in inputs
            ]

        def shutdown(self) -> None:
            engine.closed = True

    def default_multimodal_input_loader(
        *,
        tokenizer: Any,
        model_dir: str,
        model_type: str,
        modality: str,
        prompts: list[str],
        media: Any = None,
        image_data_format: str = "pt",
        num_frames: int = 8,
        mm_embeddings: Any = None,
        device: str = "cpu",
    ) -> list[dict[str, Any]]:
        engine.loads.append({"model_type": model_type, "modality": modality, "prompts": prompts, "media": media})
        return [{"prompt": f"<image>{prompt}", "multi_modal_data": {"image": media}} for prompt in prompts]

    contents: dict[str, dict[str, Any]] = {
        "tensorrt_llm": {"LLM": LLM, "SamplingParams": SamplingParams, "__version__": "1.0.0"},
        "tensorrt_llm.llmapi": {"GuidedDecodingParams": GuidedDecodingParams},
        "tensorrt_llm.sampling_params": {},
        "tensorrt_llm.executor": {},
        "tensorrt_llm.executor.request": {"LoRARequest": LoRARequest},
        "tensorrt_llm.lora_helper": {"LoraConfig": LoraConfig},
        "tensorrt_llm.inputs": {"default_multimodal_input_loader": default_multimodal_input_loader},
    }
    for name, members in contents.items():
        module = ModuleType(name)
        module.__dict__.update(members, __path__=[], __spec__=ModuleSpec(name, None))
        monkeypatch.setitem(sys.modules, name, module)
    return engine


@pytest.fixture
def make(engine: Engine, model_folder: Path, tokenizer: Any) -> Any:
    """Makes a policy over the stand-in."""
    from selfsurf.agents.policies.tensorrt.policy import TensorRTPolicy

    return lambda **options: TensorRTPolicy(model_folder, tokenizer=tokenizer, **options)


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """What TensorRT-LLM is told about an adapter: its folder, and its rank."""
    config = {"peft_type": "LORA", "r": 8, "rank_pattern": {"q_proj": 16}}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    save_file({"lora": np.zeros(1, np.float32)}, tmp_path / "adapter_model.safetensors")
    return tmp_path


def test_the_model_is_started_with_its_own_tokenizer(
    engine: Engine, make: Any, model_folder: Path, policy: Any
) -> None:
    made = make(tensor_parallel_size=2, engine={"max_seq_len": 1000})
    assert engine.started == {
        "model": str(model_folder), "tokenizer": made.tokenizer, "tp": 2, "dtype": "auto",
        "guided_decoding_backend": "llguidance", "max_seq_len": 1000,
    }  # fmt: skip
    assert made.context_length == 1000
    assert make().context_length == policy.context_length
    assert made.parameter_count == policy.parameter_count
    assert made.eos_token_ids == policy.eos_token_ids
    assert not made.sees_images
    made.close()
    assert engine.closed


def test_prompts_are_the_ids_that_transformers_gets(engine: Engine, make: Any, policy: Any, tokenizer: Any) -> None:
    made = make()
    sampled = [*tokenizer.encode('click":3}'), tokenizer.eos_token_id]
    engine.answer(sampled)
    engine.answer(sampled[:-1], "length")
    first, second = made.complete([PAGE, PAGE[1:]], prefill='{"', max_new_tokens=9)
    (call,) = engine.calls
    assert [one["prompt_token_ids"] for one in call["inputs"]] == [
        policy.encode(PAGE, '{"'),
        policy.encode(PAGE[1:], '{"'),
    ]
    assert call["lora"] is None
    assert call["tqdm"] is False
    assert first.prompt_token_ids == policy.encode(PAGE, '{"')
    assert first.prefill_token_ids == tokenizer.encode('{"')
    assert (first.text, first.token_ids, first.finish_reason) == ('{"click":3}', sampled, "eos")
    assert (second.text, second.finish_reason) == ('{"click":3}', "length")
    assert first.usage is not None
    assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (len(first.prompt_token_ids), len(sampled))
    assert made.count_prompt_tokens(PAGE, '{"') == len(first.prompt_token_ids)


def test_temperature_zero_is_greedy_and_others_are_not(engine: Engine, make: Any, tokenizer: Any) -> None:
    made = make()
    for temperature in (0.0, 0.7):
        engine.answer([1])
        engine.answer([1])
        made.complete([PAGE, PAGE], temperature=temperature, max_new_tokens=5, seed=11)
    greedy, drawn = (call["sampling"] for call in engine.calls)
    assert all(params.greedy and params.temperature is None and params.max_tokens == 5 for params in greedy)
    assert all(not params.greedy and params.temperature == 0.7 and params.top_p == 1.0 for params in drawn)
    assert [params.seed for params in drawn] == [11, 12]
    assert greedy[0].end_id == tokenizer.eos_token_id
    assert greedy[0].include_stop_str_in_output


def test_calls_without_a_seed_go_on_with_the_policys_own(engine: Engine, make: Any) -> None:
    def seeds(made: Any) -> list[int]:
        found = []
        for _ in range(2):
            engine.answer([1])
            made.complete([PAGE], temperature=1.0)
            found.append(engine.calls[-1]["sampling"][0].seed)
        return found

    first = seeds(make(seed=5))
    assert first[0] != first[1]
    assert seeds(make(seed=5)) == first
    assert seeds(make(seed=6)) != first


@pytest.mark.parametrize(
    ("backend", "guides", "field"),
    [("llguidance", {"grammars": [GRAMMAR]}, "grammar"), ("xgrammar", {"schemas": [SCHEMA]}, "json")],
)
def test_a_guided_reply_is_sampled_whole(
    engine: Engine, make: Any, policy: Any, tokenizer: Any, backend: str, guides: Any, field: str
) -> None:
    made = make(guided_decoding_backend=backend)
    assert made.guidance == ("grammar" if field == "grammar" else "schema")
    sampled = [*tokenizer.encode('{"click":7}'), tokenizer.eos_token_id]
    engine.answer(sampled)
    (reply,) = made.complete([PAGE], prefill='{"', max_new_tokens=10, **guides)
    (params,) = engine.calls[0]["sampling"]
    given = {name: getattr(params.guided_decoding, name) for name in ("json", "regex", "grammar", "structural_tag")}
    assert {name: value for name, value in given.items() if value} == {field: next(iter(guides.values()))[0]}
    # The guide matches from the first generated token on: a prompt that held '{"' already would give '{"{"click":7}'.
    assert engine.calls[0]["inputs"][0]["prompt_token_ids"] == policy.encode(PAGE)
    assert params.max_tokens == 10 + len(tokenizer.encode('{"'))
    assert reply.text == '{"click":7}'
    assert reply.prefill_token_ids == []
    assert reply.grammar == (GRAMMAR if field == "grammar" else None)
    assert reply.finish_reason == "eos"


def test_what_a_grammar_allowed_can_be_computed_again(engine: Engine, make: Any, tokenizer: Any) -> None:
    from selfsurf.agents.reply.constraint import token_masks

    engine.answer([*tokenizer.encode('{"click":7}'), tokenizer.eos_token_id])
    (reply,) = make().complete([PAGE], prefill='{"', grammars=[GRAMMAR])
    masks = token_masks(tokenizer, reply.grammar, reply.token_ids, reply.prefill_token_ids)
    assert masks[np.arange(len(reply.token_ids)), reply.token_ids].all()


def test_a_reply_that_a_grammar_ends_without_a_token(engine: Engine, make: Any, tokenizer: Any) -> None:
    engine.answer(tokenizer.encode('{"click":7}'))
    (reply,) = make().complete([PAGE], grammars=[GRAMMAR])
    assert reply.finish_reason == "grammar"


@pytest.mark.parametrize(
    ("backend", "guides", "says"),
    [
        ("llguidance", {"schemas": [SCHEMA]}, "guidance=grammar, but a schema"),
        ("xgrammar", {"grammars": [GRAMMAR]}, "guidance=schema, but a grammar"),
        (None, {"grammars": [GRAMMAR]}, "guidance=none, but a grammar"),
        ("llguidance", {"grammars": [GRAMMAR, GRAMMAR]}, "2 grammars were given for 1"),
    ],
)
def test_guides_that_do_not_fit_are_refused(make: Any, backend: Any, guides: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make(guided_decoding_backend=backend).complete([PAGE], **guides)


def test_no_guides_are_no_guides(engine: Engine, make: Any) -> None:
    engine.answer([1])
    made = make(guided_decoding_backend=None)
    assert made.guidance == "none"
    assert "guided_decoding_backend" not in engine.started
    made.complete([PAGE], grammars=[None])
    assert engine.calls[0]["sampling"][0].guided_decoding is None
    with pytest.raises(ValueError, match="llguidance, xgrammar or None"):
        make(guided_decoding_backend="outlines")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([{5: Logprob(-0.5, 1)}, {9: Logprob(-0.1, 1), 6: Logprob(-2.5, 4)}], [-0.5, -2.5]),
        ([-0.5, -2.5], [-0.5, -2.5]),
        ([{5: Logprob(-0.5, 1)}, {9: Logprob(-0.1, 1)}], []),
        ([{5: Logprob(-0.5, 1)}], []),
        (None, []),
    ],
)
def test_logprobs_are_those_of_the_sampled_tokens(engine: Engine, make: Any, told: Any, expected: list[float]) -> None:
    engine.answer([5, 6], "length", told)
    (reply,) = make().complete([PAGE], temperature=1.0)
    assert engine.calls[0]["sampling"][0].logprobs == 1
    assert reply.logprobs == expected


@pytest.mark.parametrize(
    ("temperature", "guided", "older", "newer"),
    [
        (0.0, False, LogprobMode.RAW, LogprobMode.RAW),
        (1.0, False, LogprobMode.RAW, LogprobMode.PROCESSED),
        (0.7, False, None, LogprobMode.PROCESSED),
        (1.0, True, None, LogprobMode.PROCESSED),
        (0.0, True, None, None),
    ],
)
def test_logprobs_of_another_distribution_are_left_out(
    engine: Engine, make: Any, monkeypatch: pytest.MonkeyPatch, temperature: float, guided: bool, older: Any, newer: Any
) -> None:
    made = make()
    grammars = [GRAMMAR] if guided else None
    for mode, kind in ((older, SamplingParams), (newer, NewerSamplingParams)):
        monkeypatch.setattr(sys.modules["tensorrt_llm"], "SamplingParams", kind)
        monkeypatch.setattr(sys.modules["tensorrt_llm.sampling_params"], "LogprobMode", LogprobMode, raising=False)
        engine.answer([5], "length", [{5: Logprob(-0.5, 1)}])
        (reply,) = made.complete([PAGE], grammars=grammars, temperature=temperature)
        (params,) = engine.calls[-1]["sampling"]
        assert reply.logprobs == ([] if mode is None else [-0.5])
        assert params.logprobs == (None if mode is None else 1)
        assert getattr(params, "logprobs_mode", LogprobMode.RAW) == (mode or LogprobMode.RAW)


def test_adapters_are_swapped_between_calls(engine: Engine, make: Any, adapter: Path, tmp_path: Path) -> None:
    made = make(adapter=adapter)
    config = engine.started["lora_config"]
    assert (config.lora_dir, config.max_lora_rank) == ([str(adapter)], 16)
    asked = []
    for path in (adapter, adapter, None):
        made.set_adapter(path)
        engine.answer([1])
        engine.answer([1])
        made.complete([PAGE, PAGE])
        asked.append(engine.calls[-1]["lora"])
        assert made.adapter == path
    assert asked[2] is None
    assert [request.lora_path for request in (*asked[0], *asked[1])] == [str(adapter)] * 4
    # The engine keeps weights by number, and training writes new ones into the same folder.
    assert asked[0][0].lora_int_id == asked[0][1].lora_int_id != asked[1][0].lora_int_id
    with pytest.raises(FileNotFoundError, match=r"adapter_config\.json"):
        made.set_adapter(tmp_path / "nothing")


def test_adapters_need_an_engine_started_for_them(engine: Engine, make: Any, adapter: Path) -> None:
    with pytest.raises(ValueError, match=r"rank 16.*ranks up to 0.*lora_rank=16"):
        make().set_adapter(adapter)
    assert "lora_config" not in engine.started
    make(lora_rank=16).set_adapter(adapter)
    config = engine.started["lora_config"]
    assert (config.lora_dir, config.max_lora_rank, len(config.lora_target_modules)) == ([], 16, 7)


def test_an_adapter_of_another_base_is_refused_before_the_engine_starts(
    engine: Engine, make: Any, adapter: Path, model_folder: Path
) -> None:
    write_about(adapter, {"base_model": "another", "base_model_sha256": "0" * 64})
    with pytest.raises(WrongBase, match="belongs to the base model another"):
        make(adapter=adapter)
    assert engine.started == {}
    made = make(lora_rank=16)
    with pytest.raises(WrongBase, match="belongs to the base model another"):
        made.set_adapter(adapter)
    assert made.adapter is None
    write_about(adapter, identity("own", model_folder))
    made.set_adapter(adapter)
    assert made.adapter == adapter


@pytest.mark.parametrize("module", ["tensorrt_llm.lora_manager", "tensorrt_llm._torch.peft.lora.config"])
def test_lora_config_is_found_where_other_releases_keep_it(
    engine: Engine, make: Any, adapter: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.delitem(sys.modules, "tensorrt_llm.lora_helper")
    with pytest.raises(ImportError, match="no LoraConfig in"):
        make(adapter=adapter)
    parts = module.split(".")
    for end in range(2, len(parts) + 1):
        name = ".".join(parts[:end])
        found = ModuleType(name)
        found.__dict__.update(__path__=[])
        monkeypatch.setitem(sys.modules, name, found)
    monkeypatch.setattr(sys.modules[module], "LoraConfig", LoraConfig, raising=False)
    make(adapter=adapter)
    assert engine.started["lora_config"].max_lora_rank == 16


def test_images_go_through_the_engines_own_loader(engine: Engine, make: Any) -> None:
    made = make()
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    seeing = [PAGE[0], Message("user", "Click Submit.", (pixels,))]
    with pytest.raises(ValueError, match="text only"):
        made.complete([seeing])
    made.sees_images = True
    engine.answer([5])
    engine.answer([6])
    first, second = made.complete([seeing, PAGE], prefill='{"')
    (load,) = engine.loads
    assert (load["model_type"], load["modality"]) == ("llama", "image")
    assert load["prompts"] == ["You act on pages.\n\nClick Submit."]
    assert load["media"][0][0].size == (6, 4)
    with_image, without = engine.calls[0]["inputs"]
    assert with_image["prompt"].endswith('Click Submit.{"')
    assert first.prompt_token_ids == [1, 2, 3]  # the engine's own
    engine.answer([5])
    made.complete([[Message("user", "Compare.", (pixels, pixels))]])
    assert (engine.loads[1]["modality"], len(engine.loads[1]["media"][0])) == ("multiple_image", 2)
    assert second.prompt_token_ids == without["prompt_token_ids"]


def test_failures_of_the_engine_are_not_the_agents(engine: Engine, make: Any) -> None:
    made = make()
    engine.error = RuntimeError("CUDA out of memory\nat 0x0")
    with pytest.raises(PolicyError, match=r"could not answer: RuntimeError: CUDA out of memory$"):
        made.complete([PAGE])
    with pytest.raises(PolicyError, match="could not start"):
        make()
    engine.error = None
    with pytest.raises(PolicyError, match=r"could not start.*invalid arguments"):
        make(engine={"colour": 1})
    for reason in ("timeout", "cancelled", None):
        engine.answer([1], reason)
        with pytest.raises(PolicyError, match=f"without an answer: {reason}"):
            made.complete([PAGE])


def test_requests_that_cannot_be_answered(engine: Engine, make: Any) -> None:
    made = make(engine={"max_seq_len": 40})
    with pytest.raises(ValueError, match="exceed the context length of 40"):
        made.complete([PAGE], max_new_tokens=30)
    for options in ({"temperature": -1.0}, {"max_new_tokens": 0}):
        with pytest.raises(ValueError, match="at least"):
            made.complete([PAGE], **options)
    assert made.complete([]) == []
    assert not engine.calls


def test_an_agent_acts_with_it(engine: Engine, form: Any, model_folder: Path, tokenizer: Any) -> None:
    engine.answer([*tokenizer.encode('{"click":7}'), tokenizer.eos_token_id])
    agent: Any = agents.make("tensorrt", model=model_folder, tokenizer=tokenizer, guards=False)
    assert agent.constrained
    agent.reset()
    assert agent.act(form).to_dict()["id"] == 7
    (params,) = engine.calls[0]["sampling"]
    assert "7" in params.guided_decoding.grammar


def test_without_tensorrt_the_error_says_so() -> None:
    with pytest.raises(ImportError, match="needs tensorrt_llm; see docs"):
        agents.make("tensorrt")
