"""The policy of retries and fallback. The providers here do as they are told; real ones have tests of their own."""

import asyncio
from collections import namedtuple

import pytest

from selfsurf.browser_env.attempts.attempt import Failure
from selfsurf.browser_env.router.policy import Policy
from selfsurf.browser_env.router.provider import ProviderError
from selfsurf.browser_env.router.router import CallFailed, Router


def missing(text="There is no such button."):
    return ProviderError("not_found", text, nodes=(7,))


async def failure_of(call):
    with pytest.raises(CallFailed) as caught:
        await call
    return caught.value.failure


def test_first_failure_asks_for_one_retry_the_second_falls_back_for_the_rest_of_the_request(log, scripted):
    stagehand, webview = scripted("stagehand", None, missing(), missing("Still none.")), scripted("webview")
    router = Router([stagehand, webview], log=log, trace_id="t1")

    async def play():
        await router.navigate("http://site.test/")
        told = await failure_of(router.act("press Go"))
        assert told == Failure("not_found", told.message, retryable=True)
        assert "There is no such button. Make the same call once more" in told.message
        assert "webview" in told.message
        result = await router.act("press Go")  # fails once more, so webview does it, at the same page
        assert result.done == "it"
        assert webview.at == "http://site.test/"
        await router.act("press Stop")  # stagehand isn't asked again
        router.end("solved")

    asyncio.run(play())
    assert log.told == [
        "start stagehand navigate", "success stagehand navigate",
        "start stagehand act", "failure stagehand act",
        "start stagehand act", "failure stagehand act", "disabled stagehand act", "fallback stagehand act",
        "start webview navigate", "success webview navigate", "start webview act", "success webview act",
        "start webview act", "success webview act", "close solved",
    ]  # fmt: skip
    attempts = [attempt for what, attempt, _ in log.events if what == "start"]
    assert [one.retry_used for one in attempts] == [False, False, True, False, False, False]
    assert [one.stagehand_disabled for one in attempts] == [False, False, False, True, True, True]
    assert {one.trace_id for one in attempts} == {"t1"}
    assert len({one.attempt_id for one in attempts}) == 6
    assert [len({one.step_id for one in attempts[at]}) for at in (slice(2, 5), slice(0, 6))] == [1, 4]
    assert attempts[2].arguments == {"instruction": "press Go"}
    fallback = next(more for what, _, more in log.events if what == "fallback")
    assert fallback == ("webview", "not_found: Still none.")
    evidence = [more[-1] for what, _, more in log.events if what == "failure"]
    assert [one.tree for one in evidence] == [[7], [7]]

    router.begin()
    stagehand.plan = []
    asyncio.run(router.navigate("http://site.test/"))
    assert stagehand.at == "http://site.test/"  # another request


def test_a_request_has_one_retry_whatever_fails_and_whatever_works_in_between(log, scripted):
    one, other = scripted("a", None, missing(), None, None, missing()), scripted("b")
    router = Router([one, other], log=log)

    async def play():
        await router.navigate("http://site.test/")
        assert "once more" in (await failure_of(router.act("press Stop"))).message
        await router.observe()
        await router.act("press Stop")  # the retry works
        assert (await router.observe()).outline  # fails for the second time, so b does it
        await router.navigate("http://site.test/2")

    asyncio.run(play())
    assert log.told.count("disabled a observe") == 1
    assert log.told[-1] == "success b navigate"
    attempts = [attempt for what, attempt, _ in log.events if what == "start"]
    assert [one.action for one in attempts if one.retry_used] == ["act"]


def test_by_step_a_call_is_one_request_with_its_repetition(log, scripted):
    one, other = scripted("a", missing(), None, missing(), missing("Still none."), missing()), scripted("b")
    router = Router([one, other], policy=Policy(scope="step"), log=log)

    async def play():
        assert "once more" in (await failure_of(router.act("press Go"))).message
        await router.observe()  # is no repetition
        assert "b is asked" in (await failure_of(router.navigate("http://site.test/"))).message
        assert (await router.act("press Go")).done == "it"  # a has failed twice, so b does it
        assert len(other.calls) == 1
        assert "once more" in (await failure_of(router.act("press Go"))).message  # a is asked again
        assert (await router.act("press Go")).done == "it"  # and does it
        await router.navigate("http://site.test/")

    asyncio.run(play())
    assert len(other.calls) == 1
    steps = [attempt.step_id for what, attempt, _ in log.events if what == "start" and attempt.action == "act"]
    assert [steps.index(one) for one in steps] == [0, 0, 0, 3, 3]


def test_by_step_a_number_goes_to_the_provider_that_gave_it(scripted):
    one, other = scripted("a", ProviderError("unavailable", "Gone.")), scripted("b")
    router = Router([one, other], policy=Policy(scope="step"))

    async def play():
        await router.observe()
        await router.act({"click": 1})

    asyncio.run(play())
    assert [one.call for one in other.calls] == ["observe", "act"]


def test_the_last_one_left_is_not_disabled_and_webview_is_not_retried(log, scripted):
    webview = scripted("webview", missing(), missing(), None)
    router = Router([webview], log=log)

    async def play():
        for _ in range(2):
            told = await failure_of(router.act("press Go"))
            assert told == Failure("not_found", "There is no such button.", retryable=False)
        await router.act("press Go")

    asyncio.run(play())
    assert "disabled webview act" not in log.told


@pytest.mark.parametrize(
    ("kind", "asked", "disabled"), [("refused", 0, False), ("invalid_arguments", 0, False), ("unavailable", 1, True)]
)
def test_the_reaction_depends_on_the_kind_of_failure(log, scripted, kind, asked, disabled):
    one, other = scripted("stagehand", ProviderError(kind, "No.")), scripted("webview")
    router = Router([one, other], log=log)

    async def play():
        if asked:
            return await router.act("press Go")
        return await failure_of(router.act("press Go"))

    told = asyncio.run(play())
    assert len(other.calls) == asked
    assert ("disabled stagehand act" in log.told) is disabled
    if not asked:
        assert told == Failure(kind, "No.", retryable=False)


def test_own_policy_by_step_and_kind(scripted):
    one, other = scripted("a", missing(), missing(), missing()), scripted("b")
    policy = Policy(retries=0, retries_of={}, scope="step", reactions={"not_found": "retry"})
    router = Router([one, other], policy=policy)

    async def play():
        for _ in range(3):  # each step asks the first one again
            assert (await router.act("press Go")).done == "it"
        await router.act("press Go", step_id="s")
        assert len(one.calls) == 4

    asyncio.run(play())
    assert len(other.calls) == 3
    with pytest.raises(ValueError, match="0 or more"):
        Policy(retries=-1)
    with pytest.raises(ValueError, match="different names"):
        Router([one, one])


def test_an_attempt_has_a_deadline_and_its_timeout_is_logged(log, scripted):
    router = Router([scripted("a", asyncio.sleep(5))], policy=Policy(deadline=0.05), log=log)
    told = asyncio.run(failure_of(router.observe()))
    assert told.type == "timeout"
    assert "0.05 s" in told.message
    duration, failure, _ = log.events[-1][2]
    assert failure.type == "timeout"
    assert 50 <= duration < 2000


def test_a_crash_starts_the_provider_again_before_it_is_reported(log, scripted):
    one = scripted("a", None, ProviderError("crashed", "The browser is gone."), None)
    dead = scripted("dead", ProviderError("crashed", "Gone."))

    async def refuse(url):
        raise OSError("no such file")

    dead.restart = refuse

    async def play():
        router = Router([one], log=log)
        await router.navigate("http://site.test/")
        told = await failure_of(router.act("press Go"))
        assert one.restarts == ["http://site.test/"]
        assert "started again at http://site.test/" in told.message
        assert told.retryable
        await router.act("press Go")
        told = await failure_of(Router([dead]).observe())
        assert told.type == "unavailable"
        assert "no such file" in told.message

    asyncio.run(play())
    (_, first, (_, seen)), *_ = [event for event in log.events if event[0] == "success"]
    lost = next(more[2] for what, _, more in log.events if what == "failure")
    assert lost.cut == (f"The page was gone: the picture is from attempt {first.attempt_id}.",)
    assert lost.screenshot == seen.screenshot


def test_a_number_is_not_taken_to_a_provider_that_did_not_give_it(scripted):
    one, other = scripted("a", None, None, missing(), missing()), scripted("b")
    router = Router([one, other])

    async def play():
        await router.navigate("http://site.test/")
        await router.observe()
        await failure_of(router.act({"click": 1}))
        told = await failure_of(router.act({"click": 1}))
        assert "b has taken over" in told.message
        assert other.calls == []
        await failure_of(router.act({"click": 1}))
        await router.observe()
        await router.act({"click": 1})

    asyncio.run(play())
    assert [one.call for one in other.calls] == ["navigate", "observe", "act"]


def test_a_number_of_a_page_that_crashed_is_not_taken_to_another_provider(scripted):
    one, other = scripted("a", None, None, missing(), ProviderError("crashed", "Gone.")), scripted("b")
    router = Router([one, other])

    async def play():
        await router.navigate("http://site.test/")
        await router.observe()
        await failure_of(router.act({"click": 1}))
        told = await failure_of(router.act({"click": 1}))
        assert "b has taken over" in told.message

    asyncio.run(play())
    assert [one.call for one in other.calls] == []


def test_anything_raised_is_a_failure_and_a_cancelled_call_ends_its_attempt(log, scripted):
    router = Router([scripted("a", KeyError("x"), asyncio.sleep(5))], log=log)

    async def play():
        told = await failure_of(router.observe())
        assert told == Failure("unknown", "KeyError: 'x'", retryable=True)
        task = asyncio.ensure_future(router.observe())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert log.told[-1] == "failure a observe"
    assert log.events[-1][2][1] == Failure("cancelled", "The call was cancelled by its caller.", retryable=False)


def test_only_what_the_log_keeps_is_collected(log, scripted):
    wanted = namedtuple("Wanted", "screenshot snapshot")
    log.wanted = lambda failed: wanted(False, failed)
    router = Router([scripted("a", None, missing())], log=log)

    async def play():
        await router.observe()
        await failure_of(router.act("press Go"))

    asyncio.run(play())
    assert log.events[1][2][1] is None
    kept = log.events[3][2][2]
    assert kept.screenshot is None
    assert kept.tree == [7]
