"""What pages, agents and users give that nobody would write down on purpose."""

import base64
import json

import gymnasium
import pytest

from selfsurf import browser_env
from selfsurf.browser_env import Safety
from selfsurf.browser_env.safety.secrets import Vault
from selfsurf.browser_env.text import well_formed, well_formed_json


@pytest.mark.parametrize(
    "action",
    [{"action": "click", "id": 10**5000}, '{"a":' * 100_000, "[" * 100_000, {"action": "message", "text": "\ud800"}],
)
def test_odd_actions_cost_a_step_and_nothing_else(open_page, action):
    env, _ = open_page("<button>Go</button>")
    obs, *_, info = env.step(action)
    assert info["outcome"] == "running"
    json.dumps([obs["last_action"], obs["messages"]], ensure_ascii=False).encode()


def test_a_wait_that_is_longer_than_a_step_may_take_is_no_hang(open_page):
    env, _ = open_page("<button>Go</button>", options={"step_timeout": 1.0})
    *_, info = env.step({"action": "wait", "ms": 1500})
    assert info["outcome"] == "running"


@pytest.mark.parametrize("depth", [400, 2000])
def test_deeply_nested_pages_are_seen(open_page, by_name, depth):
    env, obs = open_page(
        f"""<p>top</p><script>let d = document.body;
        for (let i = 0; i < {depth}; i++) {{ const e = document.createElement('div'); d.append(e); d = e; }}
        d.innerHTML = 'bottom <button onclick="document.title = 1">Deep</button>'</script>"""
    )
    assert "bottom" in obs["page_text"]
    obs, *_ = env.step({"action": "click", "id": by_name(obs, "Deep")["id"]})
    assert (obs["title"], obs["last_error"]) == ("1", "")


def test_halves_of_characters_are_replaced(open_page):
    _, obs = open_page(
        r"""<p id=p></p><script>p.textContent = 'a' + String.fromCharCode(0xd83d) + 'b \\ud800 ' + String.fromCodePoint(0x1f600);
        document.title = 't' + String.fromCharCode(0xdc00)</script>"""
    )
    assert obs["page_text"] == "a\ufffdb \\ud800 \U0001f600"
    assert obs["title"] == "t\ufffd"
    assert well_formed("x\ud83d") == "x\ufffd"
    assert json.loads(well_formed_json(r'["\\ud83d", "\ud83d"]')) == ["\\ud83d", "\ufffd"]


@pytest.mark.parametrize("before", ["", "x:", "bob:", "user:", "u:"])
@pytest.mark.parametrize("value", ["hunter2-Zebra!9", "swordfish99", "tr0ub4dor&3x"])
def test_secrets_inside_base64_are_hidden(before, value):
    encoded = base64.b64encode(f"{before}{value}@host".encode()).decode()
    redacted = Vault({"p": value}).redact(encoded)
    assert "<secret:p>" in redacted
    assert len(encoded) - (len(redacted) - len("<secret:p>")) >= len(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reach", -1), ("reach", "a"), ("reach", float("nan")), ("budget", -5), ("budget", 1.5), ("hang_timeout", 0),
        ("step_timeout", "1"), ("deterministic", "yes"), ("count", 3), ("user", 3), ("goal", 5), ("safety", {}),
        ("session", "x"), ("bounds", 3), ("viewport", (0, 0)), ("viewport", (400,)), ("page_memory", 0),
    ],
)  # fmt: skip
def test_wrong_options_are_named_at_once(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be "):
        gymnasium.make("Browser-v0", **{name: value})


def test_a_folder_is_its_index_page(tmp_path):
    task = browser_env.Task(start_url="http://folder.test/")
    task.sites = {"http://folder.test": tmp_path}
    (tmp_path / "index.html").write_text("<title>index</title>")
    env = gymnasium.make("Browser-v0", task=task, screenshot=False, safety=Safety())
    obs, _ = env.reset(seed=0)
    assert obs["title"] == "index"
    env.close()
