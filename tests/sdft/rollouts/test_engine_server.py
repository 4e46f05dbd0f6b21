"""A server in the place of policy workers' own models: it loads each version of the adapter by name.

The server here speaks vLLM's form over the tiny model; vLLM itself can't be run on the machines of the tests.
"""

import shutil
import threading
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("openai")

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from selfsurf.agents.policy import Message, PolicyError
from selfsurf.sdft.rollouts.models import CompletionArguments, Engine
from tests.agents.policy_server import _answer, _guide, _messages, answer, serve, serve_raw

GRAMMAR = r'start: "{\"click\":" /[1-9][0-9]?/ "}"'


def app(policy, told):
    server, lock = FastAPI(), threading.Lock()

    @server.post("/v1/load_lora_adapter", response_model=None)
    def load(body: dict[str, str]):
        told.append(("load", body["lora_name"]))
        if body["lora_name"] in policy.adapters:
            return JSONResponse({"message": f"{body['lora_name']} has already been loaded."}, 400)
        if not Path(body["lora_path"]).is_dir():
            return JSONResponse({"message": f"Loading failed: No adapter found for {body['lora_path']}"}, 404)
        policy.load_adapter(body["lora_name"], body["lora_path"])
        return {}

    @server.post("/v1/unload_lora_adapter", response_model=None)
    def unload(body: dict[str, str]):
        told.append(("unload", body["lora_name"]))
        if body["lora_name"] not in policy.adapters:
            return JSONResponse({"message": f"The lora adapter '{body['lora_name']}' cannot be found."}, 404)
        policy.use_adapters([])
        policy.unload_adapter(body["lora_name"])
        return {}

    @server.post("/v1/chat/completions", response_model=None)
    def complete(body: dict):
        messages, prefill = _messages(body)
        if body["model"] not in policy.adapters:
            return JSONResponse({"error": {"message": f"The model `{body['model']}` does not exist."}}, 404)
        with lock:
            policy.use_adapters([body["model"]])
            [completion] = policy.complete(
                [messages], grammars=[_guide(body)], temperature=body["temperature"], max_new_tokens=body["max_tokens"],
                seed=body["seed"],
            )  # fmt: skip
        return _answer(policy, body, completion, prefill)

    return server


@pytest.fixture
def asked():
    return CompletionArguments(
        [[Message("user", f"Click {number}.")] for number in range(4)],
        {"prefill": "", "temperature": 1.0, "max_new_tokens": 12},
        {"grammars": [GRAMMAR] * 4, "seed": [11, 12, 13, 14]},
    )


@pytest.fixture
def server(tiny_folder):
    """Its address, and what it was told."""
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    told = []
    with serve(app(TransformersPolicy(str(tiny_folder), dtype="float32"), told)) as url:
        yield f"{url}/v1", told


@pytest.fixture
def engine_of(model, tiny_folder):
    """Makes a policy worker's client of a server."""
    return lambda url, folder: Engine("tiny", url, str(folder), model.lora, str(tiny_folder)).make()


def tokens(completions):
    return [one.token_ids for one in completions]


@pytest.mark.slow
def test_each_version_is_loaded_once_under_its_name_and_samples(server, engine_of, model, asked, weights_of, tmp_path):
    from safetensors.torch import save

    url, told = server
    here = model.make()
    engine = engine_of(url, tmp_path / "adapters")
    assert engine.about().guidance == "grammar"
    for version in (0, 1, 0, 2, 3):
        weights = save(weights_of(version))
        engine.use(version, weights)
        here.use(version, weights)
        found, expected = engine.complete(asked), here.complete(asked)
        assert tokens(found) == tokens(expected), version
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
            assert ours.prompt_token_ids == theirs.prompt_token_ids
    other = engine_of(url, tmp_path / "adapters")
    other.use(3, weights)  # another policy worker finds it loaded
    assert tokens(other.complete(asked)) == tokens(found)
    assert [(what, name.rpartition("_")[0]) for what, name in told] == [
        ("load", "selfsurf_0"), ("load", "selfsurf_1"), ("load", "selfsurf_2"), ("unload", "selfsurf_0"),
        ("load", "selfsurf_3"), ("unload", "selfsurf_1"), ("load", "selfsurf_3"),
    ]  # fmt: skip
    kept = sorted(path.name.rpartition("_")[0] for path in (tmp_path / "adapters").iterdir())
    assert kept == ["selfsurf_2", "selfsurf_3"]
    for version in (4, 5):
        other.use(version, save(weights_of(version)))
        engine.use(version, save(weights_of(version)))  # and finds gone what the other has unloaded
    assert len(list((tmp_path / "adapters").iterdir())) == 2


def test_another_run_on_the_same_server_samples_from_its_own_weights(server, engine_of, asked, weights_of, tmp_path):
    from safetensors.torch import save

    url, told = server
    sampled = []
    for seed in (0, 1):
        engine = engine_of(url, tmp_path / "adapters")
        engine.use(0, save(weights_of(seed)))
        sampled.append([reply.logprobs for reply in engine.complete(asked)])
    assert sampled[0] != sampled[1]
    assert len({name for _, name in told}) == 2


def test_an_adapter_that_the_server_no_longer_has_is_loaded_again(server, engine_of, asked, weights_of, tmp_path):
    from safetensors.torch import save

    url, told = server
    engine = engine_of(url, tmp_path / "adapters")
    engine.use(0, save(weights_of(0)))
    before = tokens(engine.complete(asked))
    name = engine.policy.adapter
    engine._tell("unload_lora_adapter", {"lora_name": name}, done="found")  # as after a restart of the server
    shutil.rmtree(tmp_path / "adapters")
    assert tokens(engine.complete(asked)) == before
    assert told == [("load", name), ("unload", name), ("load", name)]


def test_a_server_that_does_not_work_may_do_so_later(engine_of, weights_of, tmp_path):
    from safetensors.torch import save

    with serve_raw(lambda request, body: answer(request, 503, {})) as url:
        engine = engine_of(url, tmp_path / "adapters")
        with pytest.raises(ConnectionError, match=r"load_lora_adapter of selfsurf_0_.* 503"):
            engine.use(0, save(weights_of(0)))
    with pytest.raises(ConnectionError, match="load_lora_adapter of selfsurf_0_"):
        engine.use(0, save(weights_of(0)))  # nobody is there any more


def test_a_folder_that_the_server_does_not_see_is_an_error(server, engine_of, weights_of, tmp_path, monkeypatch):
    from safetensors.torch import save

    url, _ = server
    engine = engine_of(url, tmp_path / "adapters")
    tell = engine._tell
    elsewhere = str(tmp_path / "there")
    monkeypatch.setattr(
        engine, "_tell", lambda what, body, **options: tell(what, {**body, "lora_path": elsewhere}, **options)
    )
    with pytest.raises(PolicyError, match=r"load_lora_adapter of selfsurf_0_.*No adapter found"):
        engine.use(0, save(weights_of(0)))
