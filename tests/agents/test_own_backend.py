"""The backend of docs/agents.md works as it stands there."""

import re
import sys
from pathlib import Path

import gymnasium

import selfsurf  # noqa: F401  (registers the ids)
from selfsurf import agents

DOCS = Path(__file__).parents[2] / "docs" / "agents.md"


def test_the_backend_in_the_documentation_acts(tmp_path, monkeypatch):
    found = re.search(r"```python\n(# my_backend\.py\n.*?)```", DOCS.read_text(encoding="utf8"), re.DOTALL)
    assert found is not None
    (tmp_path / "my_backend.py").write_text(found[1])
    monkeypatch.syspath_prepend(tmp_path)
    env = gymnasium.make("MiniWoB/click-test-v0", screenshot=False)
    obs, _ = env.reset(seed=0)
    agent = agents.make("my_backend:MyPolicy", model="x", max_new_tokens=9)
    agent.reset(obs["goal"])
    (decision,) = agent.decide([obs])
    *_, info = env.step(decision.action)
    env.close()
    sys.modules.pop("my_backend")
    assert agent.policy.name == "x"
    assert decision.action.to_dict() == {"action": "click", "id": 1}
    assert info["outcome"] == "solved"
