"""A server in the place of policy workers' own models: it loads each version of the adapter by name.

The server here speaks vLLM's form over the tiny model; vLLM itself can't be run on the machines of the tests.
"""

import threading

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("openai")

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from agents.policy import Message
from sdft.rollouts.models import Asked, Engine
from tests.agents.policy_server import _answer, _guide, _messages, serve

GRAMMAR = r'start: "{\"click\":" /[1-9][0-9]?/ "}"'


def app(policy, told):
    server, lock = FastAPI(), threading.Lock()

    @server.post("/v1/load_lora_adapter", response_model=None)
    def load(body: dict[str, str]):
        told.append(("load", body["lora_name"]))
        if body["lora_name"] in policy.adapters:
            return JSONResponse({"message": f"{body['lora_name']} has already been loaded."}, 400)
        policy.load_adapter(body["lora_name"], body["lora_path"])
        return {}

    @server.post("/v1/unload_lora_adapter", response_model=None)
    def unload(body: dict[str, str]):
        told.append(("unload", body["lora_name"]))
        policy.use_adapters([])
        policy.unload_adapter(body["lora_name"])
        return {}

    @server.post("/v1/chat/completions", response_model=None)
    def complete(body: dict):
        messages, prefill = _messages(body)
        with lock:
            policy.use_adapters([body["model"]])
            [completion] = policy.complete(
                [messages], grammars=[_guide(body)], temperature=body["temperature"], max_new_tokens=body["max_tokens"],
                seed=body["seed"],
            )  # fmt: skip
        return _answer(policy, body, completion, prefill)

    return server


def test_each_version_is_loaded_once_under_its_name_and_samples(tiny_policy, tiny_folder, model, weights_of, tmp_path):
    from safetensors.torch import save

    from agents.policies.transformers import TransformersPolicy

    told = []
    asked = Asked(
        [[Message("user", f"Click {number}.")] for number in range(4)],
        {"prefill": "", "temperature": 1.0, "max_new_tokens": 12},
        {"grammars": [GRAMMAR] * 4, "schemas": None, "seed": [11, 12, 13, 14]},
    )
    here = model.make()
    with serve(app(TransformersPolicy(str(tiny_folder), dtype="float32"), told)) as url:
        engine = Engine("tiny", f"{url}/v1", str(tmp_path / "adapters"), model.lora, str(tiny_folder)).make()
        assert engine.about().guidance == "grammar"
        for version in (0, 1, 0, 2, 3):
            weights = save(weights_of(version))
            engine.use(version, weights)
            here.use(version, weights)
            found, expected = engine.complete(asked), here.complete(asked)
            assert [one.token_ids for one in found] == [one.token_ids for one in expected], version
            for ours, theirs in zip(found, expected, strict=True):
                assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
                assert ours.prompt_token_ids == theirs.prompt_token_ids
        other = Engine("tiny", f"{url}/v1", str(tmp_path / "adapters"), model.lora, str(tiny_folder)).make()
        other.use(3, weights)  # another policy worker finds it loaded
        assert [one.token_ids for one in other.complete(asked)] == [one.token_ids for one in found]
    assert told == [
        ("load", "selfsurf_0"), ("load", "selfsurf_1"), ("load", "selfsurf_2"), ("unload", "selfsurf_0"),
        ("load", "selfsurf_3"), ("unload", "selfsurf_1"), ("load", "selfsurf_3"),
    ]  # fmt: skip
