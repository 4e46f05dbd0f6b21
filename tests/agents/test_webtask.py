"""The façade on a page over loopback, with `await` and without: tasks, steps, single actions, described elements."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from selfsurf import agents
from selfsurf.agents import SyncWebtask, Webtask
from selfsurf.agents.policies.openai.policy import OpenAIPolicy
from selfsurf.agents.policy import Completion
from selfsurf.agents.webtask.web_agent import Visit, WebAgent
from selfsurf.browser_env import ActionError, AsyncBrowserEnv, EnvError, Safety, SessionOptions, runtime
from selfsurf.browser_env.record.episode import Episode
from tests.agents.policy_server import answer, completion, replying, serve_raw
from tests.agents.said import Saying
from tests.processes import browsers, until

DOCS = Path(__file__).parents[2] / "docs" / "agents.md"
PAGE = """<!doctype html><title>Shop</title><input aria-label=Name>
<button onclick="document.title='in'; price.textContent='Blue mug: 4 euros'">Log in</button><p id=price></p>"""
MESSAGE = "<!doctype html><title>Message</title><button onclick=\"document.title='gone'\">Delete</button>"
PICK = '{"pick": {"element_id": 2}}'
DONE = 'Done.\nAction: {"finish":"4 euros"}'
ACCEPTED = '{"accept": {"reason": "it shows"}}'


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the page."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write((MESSAGE if self.path == "/message" else PAGE).encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def llm() -> Iterator[Callable[..., dict[str, Any]]]:
    """Options of an agent whose model's server gives these replies."""
    with ExitStack() as stack:

        def serve(*replies: str) -> dict[str, Any]:
            url = stack.enter_context(serve_raw(replying([], *replies)))
            return {"llm": "openai", "model": "m", "base_url": url, "retries": 0}

        yield serve


def test_the_example_in_the_documentation(tmp_path: Path, monkeypatch: Any, address: str, llm: Any) -> None:
    found = re.search(r"```python\n(# shop\.py\n.*?)```", DOCS.read_text(encoding="utf8"), re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    example: dict[str, Any] = {}
    exec(found[1], example)
    completed, answer = asyncio.run(example["main"](url=address, **llm(PICK, DONE, ACCEPTED)))
    assert (completed, answer) == (True, "4 euros")
    assert (tmp_path / "end.png").read_bytes().startswith(b"\x89PNG")


def test_without_await_step_by_step_on_the_same_page(tmp_path: Path, address: str, llm: Any) -> None:
    replies = llm(
        'Type.\nAction: {"fill":1,"text":"Ada"}', DONE, '{"reject":{"missing":"log in"}}', PICK, DONE, ACCEPTED
    )
    with SyncWebtask(viewport=(400, 300)) as webtask:
        agent = webtask.create_agent(episodes=tmp_path, guards=False, **replies)
        agent.navigate(address)
        agent.begin("Say what the mug costs.", max_steps=9)
        with pytest.raises(ValueError, match="A task is running"):
            agent.navigate(address)
        first = agent.run_step()
        assert not first.done
        assert [one.tool for one in first.steps[0].proposals[0].results] == ["fill"]
        agent.run_step()
        agent.stop()
        with pytest.raises(ValueError, match="No task is running"):
            agent.run_step()
        assert agent.observe()["elements"][0]["value"] == "Ada", "the page is as the task left it"
        button = agent.select("the login button")
        assert (button.id, button.role, button.name) == (2, "button", "Log in")
        button.click()
        assert agent.observe()["title"] == "in"
        assert button.xpath() == "/html[1]/body[1]/button[1]"
        result = agent.execute("Say what the mug costs.")
        assert (result.done, result.completed, result.outcome, result.answer) == (True, True, "stopped", "4 euros")
        plain, marked = agent.screenshot(), agent.screenshot(marked=True)
        assert plain.shape == (300, 400, 3)
        assert not np.array_equal(plain, marked)
        with pytest.raises(ActionError):
            agent.do({"action": "click", "id": 99})
        agent.wait(0.01)
    ends = [Episode(tmp_path / f"task-{number}") for number in (1, 2)]
    assert [one.meta["outcome"] for one in ends] == ["stopped", "stopped"]
    assert [len(list(one.steps())) for one in ends] == [2, 1]
    assert next(ends[1].steps())["decision"]["roles"][1]["role"] == "verifier"


def test_each_task_is_logged_under_its_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, llm: Any
) -> None:
    monkeypatch.setenv("CLAW_LOG_DIR", str(tmp_path / "logs"))
    missing = 'Look.\nAction: {"click":99}'
    with SyncWebtask() as webtask:
        agent = webtask.create_agent(
            episodes=tmp_path / "episodes", guards=False, **llm(missing, DONE, ACCEPTED, *[DONE, ACCEPTED])
        )
        agent.navigate(address)
        for _ in range(2):
            assert agent.execute("Say what the mug costs.").completed
            agent.do({"action": "click", "id": 2})
    folders = [*(tmp_path / "logs" / "browser-automation").glob("*/*")]
    assert until(lambda: len([*(tmp_path / "logs").rglob("summary.json")]) == 2, 10)
    ids = [Episode(tmp_path / "episodes" / f"task-{number}").meta["traceId"] for number in (1, 2)]
    assert {folder.name for folder in folders} == {*ids}
    summaries = [
        json.loads((folder.parent / id / "summary.json").read_text()) for folder, id in zip(folders, ids, strict=True)
    ]
    assert [(one["decision"], one["attempts"], one["errors"]) for one in summaries] == [
        ("done", 1, {"not_found": 1}), ("done", 0, {})
    ]  # fmt: skip
    lines = [
        json.loads(line)
        for path in (tmp_path / "logs").rglob("attempt.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert [line["outcome"] for line in lines] == ["start", "failure"], "what is done between tasks belongs to none"


class Mug(BaseModel):
    price: float
    currency: str


def test_an_answer_is_parsed_into_the_model_that_is_asked_for(address: str, llm: Any) -> None:
    right = 'Done.\nAction: {"finish":{"price":4,"currency":"euros"}}'
    with SyncWebtask(screenshot=False) as webtask:
        agent = webtask.create_agent(guards=False, **llm(PICK, DONE, ACCEPTED, right, ACCEPTED, DONE, ACCEPTED))
        agent.navigate(address)
        agent.select("the login button").click()
        result = agent.execute("Say what the mug costs.", schema=Mug)
        assert (result.completed, result.data, len(result.steps)) == (True, Mug(price=4, currency="euros"), 2)
        later = agent.execute("Say what the mug costs.")
        assert (later.completed, later.answer, later.data) == (True, "4 euros", None)
        with pytest.raises(ValueError, match="The JSON schema is malformed"):
            agent.execute("Say what the mug costs.", schema={"type": "mug"})


def test_without_await_it_works_where_a_loop_is_running_as_in_a_notebook(address: str, llm: Any) -> None:
    async def cell() -> str:
        with SyncWebtask(screenshot=False) as webtask:
            agent = webtask.create_agent(**llm(PICK, DONE, ACCEPTED))
            agent.navigate(address)
            return agent.execute("Say what the mug costs.").answer

    assert asyncio.run(cell()) == "4 euros"


def test_a_risky_action_after_a_task_is_carried_out_once_it_is_allowed(address: str, llm: Any) -> None:
    asked: list[str] = []
    safety = Safety(confirm=lambda action, element, risk: not asked.append(risk.kind))
    with SyncWebtask(screenshot=False, safety=safety) as webtask:
        agent = webtask.create_agent(**llm(DONE, ACCEPTED))
        agent.navigate(f"{address}message")
        agent.execute("Say what the mug costs.")
        assert agent.do({"action": "click", "id": 1})["title"] == "gone"
    assert asked == ["delete"]


def test_nothing_waits_for_a_person_who_answers_later(address: str, llm: Any) -> None:
    for options in ({"user": "later"}, {"safety": Safety(confirm="later")}):
        with pytest.raises(ValueError, match="Webtask can't wait for later answers"):
            Webtask(**options)

    async def main() -> None:
        async with AsyncBrowserEnv(task=Visit(), screenshot=False, safety=Safety(confirm="later")) as env:
            agent = WebAgent(agents.make("roles", **_policy(llm('Go.\nAction: {"click":1}'))), env)
            await agent.navigate(f"{address}message")
            with pytest.raises(ValueError, match=r"A person is asked, but no answer can be given here: .*Delete"):
                await asyncio.wait_for(agent.execute("Delete it."), 60)
            with pytest.raises(ActionError, match="no answer can be given here"):
                await agent.do({"action": "click", "id": 1})
            assert (await agent.observe())["title"] == "Message"
            await agent.close()

    asyncio.run(main())


def test_agents_that_share_a_policy_ask_it_in_turn_and_none_shares_an_executor(address: str) -> None:
    class Busy(Saying):
        asked, beside = 0, False

        def complete(self, conversations: Any, **options: Any) -> list[Completion]:
            self.beside |= self.asked > 0
            self.asked += 1
            time.sleep(0.2)
            self.asked -= 1
            return super().complete(conversations, **options)

    async def main() -> None:
        policy = Busy(OpenAIPolicy(model="m", base_url="http://127.0.0.1:9/v1"), 'Go.\nAction: {"press":"Tab"}')
        async with Webtask(screenshot=False) as webtask:
            shared = [await webtask.create_agent(policy, verifier=None) for _ in range(2)]
            await asyncio.gather(*(one.navigate(address) for one in shared))
            await asyncio.gather(*(one.execute("Press Tab.", max_steps=3) for one in shared))
            assert not policy.beside
            executor = shared[0].executor
            with pytest.raises(ValueError, match="Another open agent uses this executor"):
                await webtask.create_agent(executor)
            await shared[0].close()
            await webtask.create_agent(executor)

    asyncio.run(main())


def test_who_waits_for_a_model_takes_no_thread_from_the_browser(address: str) -> None:
    class Needy(Saying):
        def complete(self, conversations: Any, **options: Any) -> list[Completion]:
            looked_up = asyncio.run_coroutine_threadsafe(asyncio.to_thread(int), runtime().loop)
            looked_up.result(5)
            return super().complete(conversations, **options)

    policy = Needy(OpenAIPolicy(model="m", base_url="http://127.0.0.1:9/v1"), 'Go.\nAction: {"finish":"ok"}')
    loop: Any = runtime().loop
    with SyncWebtask(screenshot=False) as webtask, ThreadPoolExecutor(1) as only:
        agent = webtask.create_agent(policy, verifier=None)
        agent.navigate(address)
        usual, loop._default_executor = loop._default_executor, only
        try:
            assert agent.execute("Say ok.").completed
        finally:
            loop._default_executor = usual


def test_a_task_whose_page_never_opened_has_no_steps(address: str, llm: Any) -> None:
    with SyncWebtask(screenshot=False) as webtask:
        agent = webtask.create_agent(**llm(DONE, ACCEPTED))
        agent.navigate(address)
        assert len(agent.execute("Say what the mug costs.").steps) == 1

        async def lost(*args: Any, **options: Any) -> Any:
            raise EnvError("the browser is gone")

        agent._agent.env.core.reset = lost  # type: ignore[method-assign]
        result = agent.execute("Log in.")
        assert (result.outcome, result.steps) == ("env_error", ())


def test_a_trained_verifier_beside_a_policy_in_memory(tmp_path: Path) -> None:
    policy = OpenAIPolicy(model="m", base_url="http://127.0.0.1:9/v1")
    with SyncWebtask() as webtask, pytest.raises(ValueError, match="works only with the backend transformers"):
        webtask.create_agent(policy, verifier_adapter=tmp_path)


def _policy(served: dict[str, Any]) -> dict[str, Any]:
    """Options of `agents.make` from those of `create_agent`."""
    return {"policy": served["llm"], **{name: value for name, value in served.items() if name != "llm"}}


def test_what_cannot_be_found_or_done(address: str, llm: Any) -> None:
    async def main() -> None:
        async with Webtask(screenshot=False) as webtask:
            agent = await webtask.create_agent(
                **llm('{"none_fits": {"reason": "no cart"}}', '{"pick": {"element_id": 77}}', "x")
            )
            await agent.navigate(address)
            for _ in range(3):
                with pytest.raises(LookupError, match="No element was found for 'the cart'"):
                    await agent.select("the cart")
            with pytest.raises(ValueError, match="screenshot=True"):
                await agent.screenshot()
            with pytest.raises(ValueError, match="must be a non-empty text"):
                await agent.execute(" ")
            result = await agent.execute("Buy it.", max_steps=1)
            assert (result.done, result.completed, result.outcome) == (True, False, "timeout")
            policy = OpenAIPolicy(model="m", base_url="http://127.0.0.1:9/v1", retries=0)
            lost = await webtask.create_agent(policy, verifier=None)
            result = await lost.execute("Buy it.")
            assert (result.done, result.completed, result.outcome) == (True, False, "env_error"), (
                "not the agent's fault"
            )
            assert result.steps == ()

    asyncio.run(main())


def test_a_refused_address_names_what_permits_it(address: str, llm: Any) -> None:
    async def main() -> None:
        async with Webtask(screenshot=False) as webtask:
            agent = await webtask.create_agent(**llm())
            await agent.navigate("data:text/html,<p>Start")
            with pytest.raises(ActionError, match=r'private network\..* Safety\(allowed=\("127\.0\.0\.1",\)\)'):
                await agent.navigate(address)

    asyncio.run(main())


def test_who_stops_waiting_is_not_kept_by_the_model(tmp_path: Path, address: str) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slow(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        asked.set()
        may_answer.wait(30)
        answer(handler, body=completion(text='Press.\nAction: {"click":2}'))

    async def main(url: str) -> None:
        async with Webtask() as webtask:
            agent = await webtask.create_agent("openai", model="m", base_url=url, retries=0, episodes=tmp_path)
            await agent.navigate(address)
            working = asyncio.ensure_future(agent.execute("Log in."))
            await asyncio.to_thread(asked.wait, 30)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(working, 10)
            assert not may_answer.is_set()
            may_answer.set()
            assert (await agent.observe())["title"] == "Shop", "what it decides later is not done"

    with serve_raw(slow, ["m"]) as url:
        asyncio.run(main(url))
    assert Episode(tmp_path / "task-1").meta["outcome"] == "stopped"


def test_a_closed_agent_says_so_and_episodes_are_numbered_on(tmp_path: Path, address: str, llm: Any) -> None:
    with SyncWebtask() as webtask:
        agent = webtask.create_agent(episodes=tmp_path, **llm(*[DONE, ACCEPTED] * 3))
        agent.navigate(address)
        for _ in range(2):
            result = agent.execute("Say what the mug costs.")
        shutil.rmtree(tmp_path / "task-1")
        agent.execute("Say what the mug costs.")
        assert sorted(one.name for one in tmp_path.iterdir()) == ["task-2", "task-3"]
        assert len(repr(result)) < 300
        with pytest.raises(ValueError, match="whole number"):
            agent.execute("Look.", max_steps="3")
        agent.close()
        for use in (agent.observe, lambda: agent.navigate(address), lambda: agent.execute("Look.")):
            with pytest.raises(ValueError, match="agent is closed"):
                use()
    with pytest.raises(ValueError, match="is closed"):
        webtask.create_agent(**llm(DONE))
    with SyncWebtask() as webtask, pytest.raises(ValueError, match="leave policy= out"):
        webtask.create_agent("openai", policy="openai", model="m")
    with pytest.raises(TypeError, match="frob"):
        Webtask(frob=1)


def test_a_task_whose_page_has_gone_with_the_browser_says_so(tmp_path: Path, address: str, llm: Any) -> None:
    with SyncWebtask(session=SessionOptions(profile=tmp_path)) as webtask:
        agent = webtask.create_agent(**llm(DONE, ACCEPTED))
        agent.navigate(address)
        session = agent._agent.env.core.session
        own = [one for one in browsers() if str(tmp_path) in " ".join(one.cmdline())]
        for browser in own:
            browser.kill()
        assert own
        assert until(session.active.page.is_closed)
        with pytest.raises(EnvError, match="The browser and its page are gone"):
            agent.execute("Say what the mug costs.")
        agent.navigate(address)
        assert agent.execute("Say what the mug costs.").completed


def test_importing_it_starts_and_loads_nothing() -> None:
    webtask = Webtask()
    asyncio.run(webtask.close())
    with pytest.raises(AttributeError, match="no attribute 'Webtasks'"):
        agents.Webtasks  # noqa: B018
