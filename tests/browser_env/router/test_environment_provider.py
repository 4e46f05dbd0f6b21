"""The provider on the environment, with a real browser: the five calls, kinds of failures, evidence, a dead browser."""

import asyncio
import io
import json
import threading
import time

import numpy as np
import pytest
from PIL import Image
from pydantic import BaseModel

from selfsurf.browser_env import AsyncBrowserEnv, Safety
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.router.providers import make
from selfsurf.browser_env.router.providers.playwright import PlaywrightProvider
from selfsurf.browser_env.router.router import CallFailed, Router
from tests.processes import browsers, crowd, until

PAGE = (
    "data:text/html,<title>Shop</title><body style='margin:0'><h1>Shop</h1>"
    "<label>Name <input id=n value='Grace Hopper'></label>"
    "<p>Write to <b>grace</b>@navy.example today</p><p>Card 4111 1111 1111 1111 here</p>"
    "<button onclick=\"document.title='pressed'\">Go</button><button disabled>Later</button>"
    "<div contenteditable>dear diary</div>"
)


class Heading(BaseModel):
    heading: str
    price: float


def press_go(instruction, seen):
    assert instruction == "press Go"
    return {"click": next(one["id"] for one in seen["elements"] if one["name"] == "Go")}


async def read_heading(messages, schema):
    assert set(schema["properties"]) == {"heading", "price"}
    assert 'heading "Shop"' in messages[-1]["text"]
    return 'Here it is: {"heading": "Shop", "price": 9.5}'


async def failure_of(call):
    with pytest.raises(CallFailed) as caught:
        await call
    return caught.value.failure


def test_the_five_calls_kinds_of_failures_and_evidence(log):
    provider = make("playwright", {"safety": Safety()}, decide=press_go, complete=read_heading)
    router = Router([provider], log=log)

    async def play():
        assert (await router.navigate(PAGE)).title == "Shop"
        seen = await router.observe("press Go")
        assert '[2] button "Go"' in seen.outline
        assert seen.elements[0]["name"] == "Name"
        assert [action.to_dict() for action in seen.actions] == [{"action": "click", "id": 2}]
        assert (await router.act("press Go")).title == "pressed"
        assert (await router.act({"action": "fill", "id": 1, "text": "Ada Lovelace"})).done
        assert await router.extract("the heading", Heading) == Heading(heading="Shop", price=9.5)
        picture = Image.open(io.BytesIO((await router.screenshot()).png))
        assert picture.size == (1280, 720)
        kinds = {
            "blocked": {"click": 3}, "not_found": {"click": 99}, "refused": {"action": "navigate", "url": "http://127.0.0.1:9/"},
            "invalid_arguments": {"action": "select", "id": 2, "options": ["x"]}, "navigation": {"action": "back"},
        }  # fmt: skip
        told = {kind: await failure_of(router.act(action)) for kind, action in kinds.items() if kind != "navigation"}
        assert {kind: failure.type for kind, failure in told.items()} == {kind: kind for kind in told}
        assert told["blocked"].message == "Element 3 is disabled."
        told = await failure_of(router.act({"action": "finish", "answer": "x"}))
        assert told.type == "invalid_arguments"
        await router.close()

    asyncio.run(play())
    failed = [more[2] for what, _, more in log.events if what == "failure"]
    blocked = failed[0]
    assert blocked.dom[0]["element"]["tag"] == "button"
    assert blocked.dom[0]["element"]["children"] == ["Later"]
    assert blocked.cut == ()
    text = json.dumps(blocked.tree) + json.dumps(blocked.dom)
    assert '"role": "button", "name": "Go"' in text
    for typed in ("Ada Lovelace", "Grace Hopper", "dear diary"):
        assert typed not in text
    boxes = {box["tag"]: box["box"] for box in blocked.dom[0]["neighbours"]}
    picture = np.asarray(Image.open(io.BytesIO(blocked.screenshot)).convert("RGB"))
    x, y, width, height = boxes["div"]
    assert len(np.unique(picture[y + 2 : y + height - 2, x + 2 : x + width - 2].reshape(-1, 3), axis=0)) == 1
    grey = (picture == 128).all(axis=2)
    for tag in ("p", "label"):  # the address, the card and the field are painted over, the words beside them are not
        x, y, width, height = boxes[tag]
        part = grey[y : y + height, x : x + 400]
        assert 0.1 < part.mean() < 0.9


def test_a_model_that_fails_costs_no_provider(log, scripted):
    def refuse(*asked):
        raise ConnectionError("nobody is there")

    other = scripted("other")
    router = Router([PlaywrightProvider(safety=Safety(), decide=refuse, complete=refuse), other], log=log)

    async def play():
        await router.navigate(PAGE)
        for _ in range(2):
            calls = (router.act("press Go"), router.extract("the heading", Heading))
            told = [await failure_of(call) for call in calls]
            assert {(failure.type, failure.retryable) for failure in told} == {("model", False)}
            assert all("nobody is there" in failure.message for failure in told)
        assert '[2] button "Go"' in (await router.observe()).outline
        await router.close()

    asyncio.run(play())
    assert other.calls == []


def test_an_agents_own_environment_can_be_routed(log):
    async def play():
        async with AsyncBrowserEnv(PAGE, screenshot=False) as env:
            await env.reset(seed=0)
            provider = PlaywrightProvider(env)
            router = Router([provider], log=log)
            await router.act({"click": 2})
            observation, reward, terminated, truncated, info = provider.last
            assert observation["title"] == "pressed"
            assert (reward, terminated, truncated, info["outcome"]) == (0.0, False, False, "running")
            await router.close()
            observation, *_ = await env.step({"click": 2})  # it is the agent's, and open still
            assert not observation["last_error"]
            await env.step({"action": "finish"})
            told = await failure_of(router.act({"click": 2}))
            assert (told.type, told.retryable) == ("refused", False)
        with pytest.raises(ValueError, match="not both"):
            PlaywrightProvider(env, screenshot=True)

    asyncio.run(play())


def test_a_crashed_page_is_back_before_the_model_is_told(log):
    provider = PlaywrightProvider(safety=Safety())
    router = Router([provider], log=log)

    async def play():
        await router.navigate(PAGE)
        protocol = provider._env.core.session.active.protocol
        asyncio.run_coroutine_threadsafe(protocol.send("Page.crash"), runtime().loop)
        told = await failure_of(router.observe())
        assert told.type == "crashed"
        assert "started again" in told.message
        assert '[2] button "Go"' in (await router.observe()).outline
        await router.close()

    asyncio.run(play())


@pytest.mark.parametrize("call", ["observe", "screenshot"])
def test_a_killed_browser_is_back_before_the_model_is_told(log, call):
    provider = PlaywrightProvider(safety=Safety())
    router = Router([provider], log=log)

    async def play():
        await router.navigate(PAGE)
        for process in browsers():
            process.kill()
        told = await failure_of(getattr(router, call)())
        assert told.type == "crashed"
        assert "the browser has ended" in told.message
        assert "started again" in told.message
        assert '[2] button "Go"' in (await router.observe()).outline
        await router.close()

    asyncio.run(play())


def test_looking_through_the_router_changes_nothing_and_shows_no_secret():
    page = "data:text/html,<title>for hunter22</title><button onclick=\"document.title='gone'\">Delete account</button>"
    provider = PlaywrightProvider(safety=Safety(secrets={"word": "hunter22"}, confirm=lambda *_: False))
    router = Router([provider])

    async def play():
        await router.navigate(page)
        assert (await router.observe(find="nothing")).elements == ()
        assert [one["name"] for one in provider._env.core.observation["elements"]] == ["Delete account"]
        picture = await router.screenshot()
        assert "hunter22" not in picture.url + picture.title
        assert picture.title == "for <secret:word>"
        told = await failure_of(router.act({"click": 1}))
        assert "did not allow" in told.message
        await router.close()

    asyncio.run(play())


def test_after_a_hang_no_call_acts_on_a_page_that_was_opened_anew():
    page = "data:text/html,<button onclick='for(%3B%3B)%3B'>Hang</button><button onclick=\"document.title='again'\">Go</button>"
    provider = PlaywrightProvider(safety=Safety(), step_timeout=2, hang_timeout=1)
    router = Router([provider])

    async def play():
        await router.navigate(page)
        told = await failure_of(router.act({"click": 1}))
        assert (told.type, "observe the page first" in told.message) == ("crashed", True)
        await router.observe()
        dropped = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(provider._env.core._abandon(), runtime().loop))
        await dropped  # as a cancelled call does
        told = await failure_of(router.act({"click": 2}))
        assert told.type == "crashed"
        assert (await router.observe()).title == ""
        await router.close()

    asyncio.run(play())


FORM = (
    b"<title>Form</title><input aria-label=Name><button onclick='for (;;);'>Hang</button>"
    b"<script>document.body.append('cookie ' + document.cookie)</script>"
)


@pytest.fixture
def form(loopback):
    """A router on a page with a field that was filled and a cookie that is given once; `/slow` comes when it is over."""
    asked, over, given = threading.Event(), threading.Event(), []

    def answer(request):
        if request.path == "/slow":
            asked.set()
            over.wait(60)
            return b"late"
        cookie = {} if given else {"set-cookie": "sid=77; Path=/"}
        given.append(request.path)
        return 200, cookie, FORM

    provider = PlaywrightProvider(safety=Safety(allowed=("127.0.0.1",)), hang_timeout=1)
    yield Router([provider]), loopback(answer).url, asked, provider
    over.set()


async def cancelled(call, begun):
    """Cancel a call once it has begun."""
    task = asyncio.ensure_future(call)
    await begun()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("kind", ["wait", "navigate", "observe", "screenshot", "at once"])
def test_a_cancelled_call_leaves_the_page_as_it_is(form, kind):
    router, url, asked, provider = form
    began = []

    async def begun():
        if kind == "navigate":
            assert await asyncio.to_thread(asked.wait, 60)
        elif kind == "wait":
            last = provider._env.core.episode.steps
            assert await asyncio.to_thread(until, lambda: provider._env.core.episode.steps > last, 60)
        elif kind != "at once":
            await asyncio.sleep(0)
        began.append(time.monotonic())

    async def play():
        await router.navigate(url)
        await router.act({"action": "fill", "selector": "input", "text": "typed"})
        calls = {
            "navigate": lambda: router.navigate(f"{url}/slow"),
            "observe": router.observe,
            "screenshot": router.screenshot,
        }
        for _ in range(3):
            asked.clear()
            await cancelled(calls.get(kind, lambda: router.act({"action": "wait", "ms": 20_000}))(), begun)
            seen = await router.observe()
            assert ("typed" in seen.outline, "sid=77" in seen.outline, seen.title) == (True, True, "Form")
            assert time.monotonic() - began[-1] < 6 * crowd(), "what was cancelled is not waited for"
        assert (await router.act({"action": "fill", "selector": "input", "text": "again"})).done
        await router.close()

    asyncio.run(play())


def test_a_page_that_is_lost_with_a_cancelled_call_is_told_by_the_next(form):
    router, url, _, provider = form

    async def begun():
        last = provider._env.core.episode.steps
        assert await asyncio.to_thread(until, lambda: provider._env.core.episode.steps > last, 60)

    async def play():
        for again in (lambda: router.act({"click": 1}), lambda: router.navigate(url), router.observe):
            await router.navigate(url)
            await cancelled(router.act({"action": "click", "selector": "button"}), begun)
            told = await failure_of(again())
            assert (told.type, told.retryable) == ("crashed", True)
            assert "The last call was cancelled, and its page was lost" in told.message
            assert f"started again at {url}" in told.message
            assert (await router.observe()).title == "Form"
        await router.close()

    asyncio.run(play())


def test_a_picture_of_a_page_that_moves_is_not_kept(log):
    moving = (
        "data:text/html,<p id=p style='position:absolute'>ada@navy.example</p>"
        "<script>let n=0;setInterval(()=>{p.style.top=(n=(n+1)%25100)+'px'},1)</script>"
    )
    router = Router([PlaywrightProvider(safety=Safety())], log=log)

    async def play():
        await router.navigate(moving)
        await router.close()

    asyncio.run(play())
    evidence = log.events[-1][2][1]
    assert evidence.screenshot is None
    assert "moved" in evidence.cut[0]


@pytest.mark.slow
def test_evidence_of_a_large_page_is_cut_in_time_and_size_and_says_so(log):
    large = "data:text/html,<title>Large</title><script>document.write('<div><p><a href=x>word</a> text</p></div>'.repeat(9000))</script>"
    huge = large.replace("9000", "15000")
    router = Router([PlaywrightProvider(safety=Safety(), budget=2000)], log=log)

    async def play():
        for page in (large, huge):
            await router.navigate(page)
            await failure_of(router.act({"click": 999999}))
        await router.close()

    asyncio.run(play())
    one, other = [more[2] for what, _, more in log.events if what == "failure"]
    assert any("accessibility tree was cut" in text or "left out" in text for text in one.cut)
    assert len(json.dumps(one.tree or [])) < 5_000_000
    assert other.tree is None
    assert any("the page has 45" in text or "not available within" in text for text in other.cut), other.cut


def test_a_text_is_found_beyond_the_view_and_its_element_acted_on():
    far = "data:text/html,<p>top</p><p style='height:9000px'>gap</p><p>Order 17</p><button onclick=\"document.title='sent'\">Send it</button>"
    router = Router([make("playwright", {"safety": Safety()})])

    async def play():
        await router.navigate(far)
        assert "Send it" not in (await router.observe()).outline
        outline = (await router.observe(find="send IT")).outline
        assert outline.split("\n")[0] == "Order 17"
        id = int(outline.split("[")[1].split("]")[0])
        assert (await router.act({"action": "click", "id": id})).title == "sent"
        assert (await router.observe(find="nowhere")).outline == 'No line has "nowhere".'
        await router.close()

    asyncio.run(play())
