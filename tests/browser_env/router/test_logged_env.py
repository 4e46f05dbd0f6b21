"""An environment whose steps are attempts, with a real browser."""

import asyncio

import numpy as np

from selfsurf.browser_env import AsyncBrowserEnv, Safety
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.human_input import Answer
from selfsurf.browser_env.router.logged_env import LoggedEnv

PAGE = "data:text/html,<button onclick=\"document.title='pressed'\">Go</button><button disabled>Later</button>"
ACTIONS = [
    '{"click":1}',
    {"action": "click", "id": 2},
    {"action": "click", "id": 77},
    {"action": "navigate", "url": "data:text/html,<p>there"},
    "I don't know",
    {"action": "finish", "answer": "done"},
    {"action": "click", "id": 1},
]
"""Done, refused by the page, on nothing, done, none, said, and after the end."""


async def played(env):
    async with env:
        seen = [await env.reset(seed=3), *[await env.step(action) for action in ACTIONS]]
    return [(*one[:-1], {**one[-1], "time": None}) for one in seen]


def test_a_logged_step_is_the_bare_one_and_what_acts_on_the_page_is_an_attempt(log):
    bare = asyncio.run(played(AsyncBrowserEnv(PAGE, screenshot=False)))
    logged = asyncio.run(played(LoggedEnv(PAGE, screenshot=False, log=log, trace_id="it")))
    for one, other in zip(bare, logged, strict=True):
        assert {name: one[0][name] for name in ("dom", "url", "last_error", "last_action")} == {
            name: other[0][name] for name in ("dom", "url", "last_error", "last_action")
        }
        np.testing.assert_equal(one[1:-1], other[1:-1])
        assert one[-1]["outcome"] == other[-1]["outcome"] if "outcome" in one[-1] else True
    told = [(what, one.action, one.provider) for what, one, _ in log.events]
    assert told == [
        ("start", "act", "playwright"), ("success", "act", "playwright"),
        ("start", "act", "playwright"), ("failure", "act", "playwright"),
        ("start", "act", "playwright"), ("failure", "act", "playwright"),
        ("start", "navigate", "playwright"), ("success", "navigate", "playwright"),
        ("start", "act", "playwright"), ("failure", "act", "playwright"),
    ]  # fmt: skip
    assert {one.trace_id for _, one, _ in log.events} == {"it"}
    failures = [more[1].type for what, _, more in log.events if what == "failure"]
    assert failures == ["blocked", "not_found", "refused"]


def test_the_last_steps_failure_is_of_its_own_kind(log):
    async def play():
        async with LoggedEnv(PAGE, screenshot=False, log=log, trace_id="it", max_episode_steps=1) as env:
            await env.reset(seed=0)
            await env.step({"action": "click", "id": 77})
            await env.step({"action": "click", "id": 1})

    asyncio.run(play())
    failures = [more[1] for what, _, more in log.events if what == "failure"]
    assert [(one.type, one.retryable) for one in failures] == [("not_found", False), ("refused", False)]


def test_a_crash_keeps_the_last_picture_and_says_that_the_run_has_ended(log):
    async def play():
        async with LoggedEnv(PAGE, screenshot=False, log=log, trace_id="it") as env:
            await env.reset(seed=0)
            await env.step({"action": "click", "id": 1})
            session = env.core.session.active.protocol
            crash = asyncio.run_coroutine_threadsafe(session.send("Page.crash"), runtime().loop)
            *_, truncated, info = await env.step({"action": "click", "id": 1})
            crash.cancel()
            assert (truncated, info["outcome"]) == (True, "env_error")

    asyncio.run(play())
    (what, first, (_, seen)), (_, _, (_, failure, evidence)) = log.events[1], log.events[3]
    assert (what, failure.type, failure.retryable) == ("success", "crashed", False)
    assert failure.message.endswith("This ends the run.")
    assert evidence.screenshot == seen.screenshot
    assert evidence.cut == (f"The page was gone: the picture is from attempt {first.attempt_id}.",)


def test_what_a_person_has_decided_is_an_attempt_and_waiting_for_them_no_failure(log):
    page = "data:text/html,<button onclick=\"document.title='gone'\">Delete account</button>"
    delete = {"action": "click", "id": 1}

    async def play():
        async with LoggedEnv(
            page, screenshot=False, log=log, trace_id="it", user="later", safety=Safety(confirm="later")
        ) as env:
            await env.reset(seed=0)
            await env.step({"action": "ask_user", "question": "Which one?"})
            await env.answer("That.")
            refused = [await env.step(delete), await env.step({"action": "wait", "ms": 1}), await env.answer("no")]
            done = [await env.step(delete), await env.step(Answer("yes"))]
            return [result[0]["title"] for result in (*refused, *done)]

    assert asyncio.run(play())[-1] == "gone"
    ends = [(what, one.step_id, more) for what, one, more in log.events if what != "start"]
    assert [what if what == "success" else more[1].type for what, _, more in ends] == [
        "cancelled", "refused", "cancelled", "success",
    ]  # fmt: skip
    assert [sum(what == kind for what, *_ in log.events) for kind in ("start", "failure")] == [4, 3]
    assert ends[0][1] == ends[1][1] != ends[2][1] == ends[3][1]
    assert ends[0][2][1].message.startswith("A person has to decide first: The button 'Delete account'")
    assert "did not allow" in ends[1][2][1].message
