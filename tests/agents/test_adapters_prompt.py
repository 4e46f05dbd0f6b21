"""An adapter brings the prompt that it was trained under, wherever it is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from selfsurf import agents
from selfsurf.agents.adapters.identity import AdapterError, write_about
from selfsurf.agents.adapters.prompt import PROMPT, read_prompt
from selfsurf.scripts.terminal.agent_options import checked_options, read_options

TRAINED = {
    "prompt": "chat", "instructions": "Be quick.",
    "actions": ["click", "press"], "max_prompt_tokens": 700, "max_new_tokens": 20, "constrained": True, "prefill": "",
    "labels": True, "texts": "goal", "vision": "auto", "max_image_side": 600, "text_page": True, "guards": False,
}  # fmt: skip
OLD = {
    "actions": ["click", "fill"], "max_prompt_tokens": 900, "max_new_tokens": 24, "vision": "auto", "steps": 28,
    "skip_right": True, "a_setting_of_its_day": {"any": 1},
}  # fmt: skip


class Blind:
    """A policy that reads no images and can't be guided, as some servers can't."""

    name, guidance, sees_images, prompt_budget = "blind", "none", False, None
    parameter_count = context_length = None

    def __init__(self, model: str = "m", adapter: str | None = None) -> None:
        self.adapter = adapter

    def complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    count_tokens = count_prompt_tokens = complete


class Guided(Blind):
    """One that can be guided."""

    guidance = "grammar"  # type: ignore[assignment]


GUIDED, BLIND = f"{__name__}:Guided", f"{__name__}:Blind"


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    (tmp_path / "adapter").mkdir()
    write_about(tmp_path / "adapter", {PROMPT: TRAINED, "settings": OLD})
    return tmp_path / "adapter"


def acts(agent: Any) -> dict[str, Any]:
    """The options that an agent has, as JSON has them."""
    found = {name: getattr(agent, name) for name in TRAINED}
    prompt = type(found["prompt"]).__name__.lower()
    return {**found, "actions": list(found["actions"]), "guards": bool(found["guards"]), "prompt": prompt}


def test_an_agent_made_in_code_has_the_prompt_of_its_adapter(adapter: Path) -> None:
    assert acts(agents.make(GUIDED, adapter=str(adapter))) == {**TRAINED, "vision": "none"}
    assert acts(agents.make(GUIDED)) != acts(agents.make(GUIDED, adapter=str(adapter)))


def test_the_command_acts_as_code_does(adapter: Path) -> None:
    given = read_options(["max_new_tokens=30"], "m", str(adapter))
    options = agents.check_options(GUIDED, checked_options(GUIDED, given, seed=0))
    by_command = agents.make(GUIDED, **options)
    in_code = agents.make(GUIDED, model="m", adapter=str(adapter), max_new_tokens=30)
    assert acts(by_command) == acts(in_code) == {**TRAINED, "vision": "none", "max_new_tokens": 30}


def test_options_that_are_given_win(adapter: Path) -> None:
    chosen = {"actions": ["click"], "max_prompt_tokens": 300, "guards": True, "constrained": False, "prefill": "{"}
    assert acts(agents.make(GUIDED, adapter=str(adapter), **chosen)) == {**TRAINED, "vision": "none", **chosen}


def test_what_a_backend_is_not_able_to_do_is_left_out(adapter: Path) -> None:
    assert acts(agents.make(BLIND, adapter=str(adapter))) == {**TRAINED, "vision": "none", "constrained": False}


def test_an_adapter_from_before_has_it_among_its_settings(adapter: Path) -> None:
    """Whatever else these hold: nothing here knows the settings of a training."""
    write_about(adapter, {"settings": OLD})
    made = acts(agents.make(GUIDED, adapter=str(adapter)))
    assert {name: made[name] for name in ("actions", "max_prompt_tokens", "max_new_tokens", "guards", "prefill", "prompt")} == {
        "actions": ["click", "fill"], "max_prompt_tokens": 900, "max_new_tokens": 24, "guards": True, "prefill": '{"',
        "prompt": "compact",
    }  # fmt: skip


def test_an_adapter_from_elsewhere_or_on_a_server_has_none(tmp_path: Path) -> None:
    write_about(tmp_path, {"base_model": "m"})
    assert [read_prompt(one) for one in (None, tmp_path, "name-on-a-server")] == [None, None, None]
    assert acts(agents.make(GUIDED, adapter="name-on-a-server")) == acts(agents.make(GUIDED))


def test_a_damaged_section_is_told(adapter: Path) -> None:
    (adapter / "selfsurf.json").write_text(json.dumps({PROMPT: {"actions": ["clik"]}}))
    with pytest.raises(AdapterError, match=r"selfsurf\.json is damaged: prompt actions: .*clik"):
        agents.make(GUIDED, adapter=str(adapter))


def test_no_file_is_run_only_because_an_adapter_names_it(adapter: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import pathlib\nfrom selfsurf.agents.prompt.compact import Compact\n"
        "pathlib.Path(__file__).with_name('ran').touch()\nclass Own(Compact): pass\n"
    )
    name = f"{tmp_path / 'own.py'}:Own"
    (adapter / "selfsurf.json").write_text(json.dumps({PROMPT: {"prompt": name}}))
    with pytest.raises(AdapterError, match=r"If you trust that file, give prompt='.*own\.py:Own'"):
        agents.make(GUIDED, adapter=str(adapter))
    assert not (tmp_path / "ran").exists()
    assert acts(agents.make(GUIDED, adapter=str(adapter), prompt=name))["prompt"] == "own"
    assert agents.make(GUIDED, adapter=str(adapter)), "it is imported now"


def test_a_training_writes_the_prompt_that_its_agent_has() -> None:
    from selfsurf.sdft.agent import make_agent, prompt_of
    from selfsurf.sdft.settings import TrainSettings

    settings = TrainSettings(
        tasks=("MiniWoB/click-link-v0",), actions=("click", "press"), max_prompt_tokens=500, prompt="chat",
        instructions="Be quick.",
    )  # fmt: skip
    saved = json.loads(prompt_of(settings).model_dump_json())
    assert saved.pop("role") == "agent"
    assert saved.keys() == TRAINED.keys()
    assert saved["guards"] is True, "they are on wherever the adapter is used"
    trained = make_agent(Guided(), settings, sampling=False)
    assert acts(trained) == {**saved, "vision": "none", "guards": False}, "training never guards"
