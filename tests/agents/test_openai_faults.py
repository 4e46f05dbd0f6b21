"""Servers that misbehave: what is tried again, what is not, how long, and what the errors say."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from selfsurf import agents
from selfsurf.agents.policies.openai import requests
from selfsurf.agents.policies.openai.chat import read, without_reasoning
from selfsurf.agents.policies.openai.endpoints import ENDPOINTS
from selfsurf.agents.policies.openai.policy import OpenAIPolicy
from selfsurf.agents.policies.openai.usage import Prices
from selfsurf.agents.policy import Message, PolicyError
from selfsurf.agents.reply.functions import Function
from selfsurf.agents.reply.parse import parse
from tests.agents.policy_server import Handler, answer, completion, refusing, serve_raw

KEY = "nvapi-0123456789-very-secret"
ASK = [Message("user", "Click Submit.")]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., OpenAIPolicy]]:
    """Makes a policy in front of a server that answers as told: `asking(handle, **options)`; waits are short."""
    import contextlib

    monkeypatch.setattr(requests, "FIRST_WAIT", 0.01)
    with contextlib.ExitStack() as stack:

        def make(handle: Handler, **options: Any) -> OpenAIPolicy:
            url = stack.enter_context(serve_raw(handle))
            policy = OpenAIPolicy("m", **{"base_url": url, "api_key": KEY, "retries": 2, **options})
            stack.callback(policy.close)
            return policy

        yield make


def in_turn(*answers: Callable[[BaseHTTPRequestHandler], None]) -> Handler:
    """Answer the first request with the first, and so on; then well."""
    left = list(answers)

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if left:
            left.pop(0)(handler)
        else:
            answer(handler, body=completion())

    return handle


def status(code: int, message: str = "", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: answer(handler, code, {"error": {"message": message}}, named)


def drop(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.close()


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{")
    drop(handler)


@pytest.mark.parametrize(
    "fault",
    [
        status(500), status(503), status(408), status(429), drop, cut_off,
        lambda handler: answer(handler, body=b'{"choices": [{'),
        lambda handler: answer(handler, body=b"<html>busy</html>", headers={"content-type": "text/html"}),
        lambda handler: answer(handler, body={"choices": []}),
        lambda handler: answer(handler, body={"error": {"message": "upstream"}}),
        lambda handler: answer(handler, body={"choices": [{"message": None}]}),
        lambda handler: answer(handler, body={"choices": [{"message": {"content": 5}}]}),
        lambda handler: answer(handler, body=["no object"]),
    ],
    ids=["500", "503", "408", "429", "dropped", "cut off", "bad JSON", "HTML", "no choices", "error", "no message", "no text",
         "a list"],
)  # fmt: skip
def test_what_may_pass_is_tried_again(
    asking: Callable[..., OpenAIPolicy], fault: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    policy = asking(in_turn(fault, fault))
    [reply] = policy.complete([ASK])
    assert reply.text == '{"click":7}'
    assert reply.usage is not None
    assert reply.usage.attempts == 3
    assert (policy.totals.requests, policy.totals.replies) == (3, 1)


def test_retries_are_bounded_and_counted_once(asking: Callable[..., OpenAIPolicy]) -> None:
    policy = asking(in_turn(*[status(500, "out of memory")] * 9), retries=3)
    with pytest.raises(PolicyError, match=r"answered 500.*out of memory.*after 4 attempts"):
        policy.complete([ASK])
    assert policy.totals.requests == 4


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_waited_for(asking: Callable[..., OpenAIPolicy], form: str) -> None:
    asked: list[float] = []

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        asked.append(time.time())
        if len(asked) > 1:
            answer(handler, body=completion())
            return
        until = int(time.time() + 2)  # a date has whole seconds
        value = "1" if form == "seconds" else formatdate(until, usegmt=True)
        asked[0] = until - 1 if form == "date" else asked[0]
        answer(handler, 429, {"error": {"message": "slow down"}}, {"retry-after": value})

    [reply] = asking(handle).complete([ASK])
    assert reply.text == '{"click":7}'
    assert 0.9 <= asked[1] - asked[0] < 3


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7), ({"retry-after": " 0.5 "}, 0.5), ({}, None), ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None), ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0),
    ],
)  # fmt: skip
def test_retry_after_is_read_in_both_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert requests.retry_after(headers, now=60.0) == seconds


def test_backoff_doubles_up_to_a_limit() -> None:
    for attempts, longest in ((1, 0.5), (2, 1.0), (3, 2.0), (20, 30.0), (5000, 30.0)):
        waits = [requests.backoff(attempts) for _ in range(200)]
        assert longest / 2 <= min(waits) < max(waits) <= longest
        assert len(set(waits)) > 100


def test_a_longer_wait_than_patience_is_not_begun(asking: Callable[..., OpenAIPolicy]) -> None:
    policy = asking(in_turn(status(429, "quota per day", retry_after="3600")), patience=5.0)
    start = time.monotonic()
    with pytest.raises(PolicyError, match=r"patience is 5 s; the server asks to wait 3600 s"):
        policy.complete([ASK])
    assert time.monotonic() - start < 3


def test_a_server_that_hangs_or_trickles(asking: Callable[..., OpenAIPolicy]) -> None:
    over = threading.Event()

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if body["messages"][0]["content"] == "hang":
            over.wait(10)
            return
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n")
        while not over.wait(0.02):  # each byte comes in time, the whole does not
            handler.wfile.write(b" ")

    policy = asking(handle, timeout=0.2, retries=1)
    for kind in ("hang", "trickle"):
        start = time.monotonic()
        with pytest.raises(PolicyError, match=r"did not answer in time.*after 2 attempts"):
            policy.complete([[Message("user", kind)]])
        assert time.monotonic() - start < 5
    over.set()


def test_patience_bounds_the_last_attempt_too(asking: Callable[..., OpenAIPolicy]) -> None:
    over = threading.Event()
    policy = asking(lambda handler, body: over.wait(10) and None, timeout=30.0, patience=0.3)
    start = time.monotonic()
    with pytest.raises(PolicyError, match="did not answer in time"):
        policy.complete([ASK])
    assert time.monotonic() - start < 3
    over.set()


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(requests, "FIRST_WAIT", 0.01)
    with serve_raw(in_turn()) as url:
        pass
    policy = OpenAIPolicy("m", base_url=url.replace("://", "://user:hidden@"), retries=1)
    with pytest.raises(PolicyError, match=r"No connection to http://127.0.0.1:\d+/v1 .*after 2 attempts") as error:
        policy.complete([ASK, ASK])
    assert "hidden" not in str(error.value)
    [told] = [record for record in caplog.records if record.name.startswith("selfsurf.agents.policies.openai")]
    assert told.getMessage().endswith("Trying again, up to 1 times.")  # once for both requests
    policy.close()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (401, "pass api_key="), (403, "set NVIDIA_API_KEY"), (404, "Check model="),
        (400, "not accepted.*omit="), (422, "not accepted"), (501, "not accepted"), (418, "answered 418"),
    ],
)  # fmt: skip
def test_what_can_not_pass_is_not_tried_again(asking: Callable[..., OpenAIPolicy], code: int, says: str) -> None:
    policy = asking(in_turn(*[status(code, f"Refused, {KEY} is bad")] * 3), endpoint="nim")
    with pytest.raises(PolicyError, match=says) as error:
        policy.complete([ASK])
    assert "Refused, [key] is bad" in str(error.value)
    assert policy.totals.requests == 1
    chain: BaseException | None = error.value
    while chain is not None:
        assert KEY not in f"{chain} {chain.args} {vars(chain)}"
        chain = chain.__cause__ or chain.__context__


def test_a_spent_account_is_not_tried_again(asking: Callable[..., OpenAIPolicy]) -> None:
    body = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
    policy = asking(in_turn(lambda handler: answer(handler, 429, body)))
    with pytest.raises(PolicyError, match="no quota left"):
        policy.complete([ASK])


def test_a_filtered_reply_is_not_the_agents_failure(asking: Callable[..., OpenAIPolicy]) -> None:
    body = {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}
    policy = asking(in_turn(lambda handler: answer(handler, body=body)))
    with pytest.raises(PolicyError, match="content filter withheld"):
        policy.complete([ASK])
    assert policy.totals.requests == 1


def by_text(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
    """Fail as the message says."""
    text = body["messages"][0]["content"]
    if text.isdecimal():
        answer(handler, int(text), {"error": {"message": f"because of {text}"}})
    else:
        answer(handler, body=completion(text))


def test_a_row_that_fails_lets_the_others_finish(asking: Callable[..., OpenAIPolicy]) -> None:
    policy = asking(by_text, retries=0)
    rows = [[Message("user", text)] for text in ("a", "500", "b", "400", "500", "c")]
    with pytest.raises(PolicyError, match=r"3 of 6 replies failed\. Rows 1, 4: .*answered 500.*Row 3: .*answered 400"):
        policy.complete(rows)
    assert policy.totals.replies == 3
    with pytest.raises(PolicyError, match=r"1 of 2 replies failed\. Row 1: .*because of 400"):
        policy.complete([rows[0], rows[3]])
    assert [reply.text for reply in policy.complete([rows[0], rows[2], rows[5]])] == ["a", "b", "c"]


def clickable(*ids: int) -> dict[str, Any]:
    """The schema of a click on one of these."""
    return {"anyOf": [{"type": "object", "properties": {"click": {"type": "integer", "enum": list(ids)}}}]}


SCHEMA = clickable(7)
GUIDES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "schema": ({}, {"schemas": [SCHEMA]}, "response_format"),
    "strict": ({"endpoint": "openai"}, {"schemas": [SCHEMA]}, "response_format"),
    "nvext": ({"endpoint": "nim"}, {"schemas": [SCHEMA]}, "nvext"),
    "grammar": ({"endpoint": "vllm"}, {"grammars": ['start: "{" /.*/']}, "structured_outputs"),
    "tools": ({"tools": True}, {"schemas": [SCHEMA]}, "tools"),
    "free tools": ({"tools": True}, {}, "tools"),
    "kinds": ({"tools": "kinds"}, {"schemas": [SCHEMA]}, "tools"),
}
"""How replies are guided, as what is asked with, and the field that a server may refuse."""


@pytest.mark.parametrize("guide", GUIDES)
@pytest.mark.parametrize("code", [400, 404, 422, 501])
def test_a_refused_guide_is_left_out(
    asking: Callable[..., OpenAIPolicy], caplog: pytest.LogCaptureFixture, guide: str, code: int
) -> None:
    options, asked, field = GUIDES[guide]
    bodies: list[dict[str, Any]] = []
    policy = asking(refusing(field, bodies, code), **options)
    for _ in range(2):
        [reply] = policy.complete([ASK], **asked)
        assert (reply.text, reply.grammar) == ('{"click":7}', None)
    assert [field in body for body in bodies] == [True, False, False]
    assert ("Lark grammar" if guide == "grammar" else '"click"') in bodies[1]["messages"][0]["content"]
    assert bodies[1]["messages"][0]["content"].startswith(ASK[0].text)
    [told] = [record.getMessage() for record in caplog.records if record.name.endswith("openai.policy")]
    assert f"{field} is not supported" in told
    assert ("tools=False" if "tools" in options else "constrained=False") in told


def test_a_server_that_takes_guides_gets_the_next_one(asking: Callable[..., OpenAIPolicy]) -> None:
    bodies: list[dict[str, Any]] = []

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        bodies.append(body)
        long = "response_format" in body and len(str(body)) > 2000
        answer(handler, *((400, {"error": {"message": "too many values"}}) if long else (200, completion())))

    policy = asking(handle)
    for schema in (SCHEMA, clickable(*range(500)), SCHEMA):
        policy.complete([ASK], schemas=[schema])
    assert ["response_format" in body for body in bodies] == [True, True, False, True]
    assert len(bodies[2]["messages"][0]["content"]) < 500, "the ids are in the page already"


def test_a_refusal_that_the_guide_is_not_to_blame_for(asking: Callable[..., OpenAIPolicy]) -> None:
    policy = asking(in_turn(*[status(400, "the prompt is too long")] * 4))
    for _ in range(2):
        with pytest.raises(PolicyError, match="the prompt is too long"):
            policy.complete([ASK], schemas=[SCHEMA])
    assert policy.totals.requests == 4, "both ways each time: the guide was not refused"


UNSUPPORTED: dict[str, Callable[[str], dict[str, Any]]] = {
    "parameter": lambda field: {"error": {"message": f"Unsupported parameter: '{field}' is not supported with this model.", "param": field, "code": "unsupported_parameter"}},
    "value": lambda field: {"error": {"message": f"Unsupported value: '{field}' does not support 0.0 with this model. Only the default (1) value is supported.", "param": field}},
    "words": lambda field: {"error": {"message": f"{field} isn't supported by this model"}},
    "extra field": lambda field: {"detail": [{"type": "extra_forbidden", "loc": ["body", field], "msg": "Extra inputs are not permitted", "input": 7}]},
    "message in a message": lambda field: {"object": "error", "message": {"detail": [{"loc": ["body", field], "msg": "Extra inputs are not permitted"}]}},
}  # fmt: skip
"""How servers say that they don't take a field."""


def not_taking(
    bodies: list[dict[str, Any]], form: str, *fields: str, code: int = 400
) -> Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]:
    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        bodies.append(body)
        refused = next((field for field in fields if field in body), None)
        reply = completion()
        reply["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -0.5}]} if "logprobs" in body else None
        answer(handler, code, UNSUPPORTED[form](refused)) if refused else answer(handler, body=reply)

    return handle


@pytest.mark.parametrize("form", UNSUPPORTED)
@pytest.mark.parametrize("code", [400, 422])
def test_sampling_fields_that_a_server_does_not_take_are_left_out(
    asking: Callable[..., OpenAIPolicy], caplog: pytest.LogCaptureFixture, form: str, code: int
) -> None:
    bodies: list[dict[str, Any]] = []
    assert asking(not_taking([], form), endpoint="vllm", logprobs=True).complete([ASK])[0].logprobs == [-0.5]
    policy = asking(not_taking(bodies, form, "temperature", "seed", "top_p", code=code), endpoint="vllm", logprobs=True)
    for _ in range(2):
        [reply] = policy.complete([ASK], seed=7)
        assert (reply.text, reply.logprobs) == ('{"click":7}', []), "another distribution than the one asked for"
    assert len(bodies) == 5
    for body in bodies[3:]:
        assert not body.keys() & {"temperature", "seed", "top_p"}
        assert {"max_tokens", "top_k"} <= body.keys()
    told = [record.getMessage() for record in caplog.records if record.name.endswith("openai.requests")]
    for field, line in zip(("temperature", "seed", "top_p"), told, strict=True):
        assert f"Leaving out {field} from now on" in line


def test_requests_at_once_tell_of_a_field_once(
    asking: Callable[..., OpenAIPolicy], caplog: pytest.LogCaptureFixture
) -> None:
    bodies: list[dict[str, Any]] = []
    together = threading.Barrier(4)

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if "temperature" in body:
            together.wait(30)
        not_taking(bodies, "value", "temperature")(handler, body)

    policy = asking(handle, retries=0)
    assert [reply.text for reply in policy.complete([ASK] * 4)] == ['{"click":7}'] * 4
    assert len(bodies) == 8
    assert len([record for record in caplog.records if "Leaving out temperature" in record.getMessage()]) == 1


@pytest.mark.parametrize(("endpoint", "field"), [(None, "max_tokens"), ("openai", "max_completion_tokens")])
def test_the_length_is_sent_by_the_name_that_the_server_takes(
    asking: Callable[..., OpenAIPolicy], endpoint: str | None, field: str
) -> None:
    [other] = {"max_tokens", "max_completion_tokens"} - {field}
    bodies: list[dict[str, Any]] = []
    policy = asking(not_taking(bodies, "parameter", field), endpoint=endpoint)
    for _ in range(2):
        policy.complete([ASK], max_new_tokens=9)
    assert [(body.get(field), body.get(other)) for body in bodies] == [(9, None), (None, 9), (None, 9)]
    bodies.clear()
    policy = asking(not_taking(bodies, "parameter", field, other), endpoint=endpoint)
    policy.complete([ASK], max_new_tokens=9)
    assert not bodies[-1].keys() & {field, other}
    assert len(bodies) == 3


def test_a_refused_field_costs_no_guide(asking: Callable[..., OpenAIPolicy]) -> None:
    bodies: list[dict[str, Any]] = []
    policy = asking(not_taking(bodies, "value", "temperature", "response_format"), endpoint="openai")
    policy.complete([ASK], schemas=[SCHEMA])
    assert [body.keys() & {"temperature", "response_format"} for body in bodies] == [
        {"temperature", "response_format"}, {"response_format"}, set(),
    ]  # fmt: skip
    bodies.clear()
    policy = asking(not_taking(bodies, "value", "temperature"), endpoint="openai")
    policy.complete([ASK], schemas=[SCHEMA])
    assert ["response_format" in body for body in bodies] == [True, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "max_tokens is too large: 5000. This model supports at most 4096 completion tokens."),
        ({}, "temperature must be at most 1"),
        ({"extra_body": {"temperature": 0.3}}, "Unsupported value: 'temperature' does not support 0.3"),
        ({"omit": ("temperature",)}, "Unsupported parameter: 'temperature'"),
    ],
)
def test_other_refusals_leave_the_fields(
    asking: Callable[..., OpenAIPolicy], options: dict[str, Any], message: str
) -> None:
    policy = asking(in_turn(*[status(400, message)] * 3), **options)
    with pytest.raises(PolicyError, match=r"not accepted.*omit="):
        policy.complete([ASK])
    assert policy.totals.requests == 1


def price(item: str) -> str:
    """What an item costs."""
    return f"{item}: 5"


def test_functions_are_not_left_out(asking: Callable[..., OpenAIPolicy]) -> None:
    bodies: list[dict[str, Any]] = []
    policy = asking(refusing("tools", bodies), tools=True)
    with pytest.raises(PolicyError, match="tools is not supported"):
        policy.complete([ASK], functions=[Function.of(price)])
    assert len(bodies) == 1


def test_concurrency_is_bounded_and_used(asking: Callable[..., OpenAIPolicy]) -> None:
    lock, now, most = threading.Lock(), 0, 0

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.1)
        with lock:
            now -= 1
        answer(handler, body=completion(body["messages"][0]["content"]))

    policy = asking(handle, max_concurrency=3)
    texts = [f"row {number}" for number in range(12)]
    results: dict[int, list[str]] = {}

    def ask(part: int) -> None:
        replies = policy.complete([[Message("user", text)] for text in texts[part::2]])
        results[part] = [reply.text for reply in replies]

    threads = [threading.Thread(target=ask, args=(part,)) for part in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: texts[0::2], 1: texts[1::2]}
    assert most == 3


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        (Prices(input=2.0, output=10.0, cached=0.5), (400 * 2.0 + 600 * 0.5 + 10 * 10.0) / 1e6),
        ({"input": 2.0, "output": 10.0}, (1000 * 2.0 + 10 * 10.0) / 1e6),
    ],
)
def test_cost(asking: Callable[..., OpenAIPolicy], prices: Any, cost: float) -> None:
    policy = asking(in_turn(), prices=prices)
    replies = policy.complete([ASK, ASK])
    for reply in replies:
        assert reply.usage is not None
        counts = (reply.usage.prompt_tokens, reply.usage.cached_tokens, reply.usage.completion_tokens)
        assert counts == (1000, 600, 10)
        assert reply.usage.cost == pytest.approx(cost)
        assert reply.usage.seconds > 0
    totals = policy.totals
    assert (totals.requests, totals.replies, totals.prompt_tokens, totals.cached_tokens) == (2, 2, 2000, 1200)
    assert totals.completion_tokens == 20
    assert totals.cost == pytest.approx(2 * cost)


def test_usage_that_is_not_told_is_not_invented(asking: Callable[..., OpenAIPolicy]) -> None:
    body = {"choices": completion()["choices"]}
    policy = asking(in_turn(lambda handler: answer(handler, body=body)), prices=Prices(1, 1))
    assert policy.complete([ASK])[0].usage is None
    assert policy.totals.cost is None


def test_images_arrive_as_png(asking: Callable[..., OpenAIPolicy]) -> None:
    bodies: list[dict[str, Any]] = []

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        bodies.append(body)
        answer(handler, body=completion())

    random = np.random.default_rng(0)
    images = tuple(random.integers(0, 256, (20, 31, 3), dtype=np.uint8) for _ in range(2))
    messages = [Message("system", "Act."), Message("user", "What now?", images)]
    policy = asking(handle, sees_images=True)
    policy.complete([messages])
    system, user = bodies[0]["messages"]
    assert system == {"role": "system", "content": "Act."}
    *pictures, text = user["content"]
    assert text == {"type": "text", "text": "What now?"}
    for picture, image in zip(pictures, images, strict=True):
        head, _, data = picture["image_url"]["url"].partition(",")
        assert (picture["type"], head) == ("image_url", "data:image/png;base64")
        decoded = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
        assert decoded.format == "PNG"
        assert np.array_equal(np.asarray(decoded), image)
    assert policy.count_prompt_tokens(messages) > policy.count_prompt_tokens([messages[0]])
    with pytest.raises(ValueError, match="uint8 array"):
        policy.complete([[Message("user", "x", (np.zeros((4, 4)),))]])
    blind = asking(handle)
    for call in (lambda: blind.complete([messages]), lambda: blind.count_prompt_tokens(messages)):
        with pytest.raises(ValueError, match="sees_images=True"):
            call()
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('<think>Maybe {"click":1}? No.</think>\n{"click":7}', '{"click":7}'),
        ('Maybe {"click":1}? No.</think>{"click":7}', '{"click":7}'),
        ('<think>I wonder whether {"click":1}', ""),
        ('{"fill":3,"text":"</think>"}', '{"fill":3,"text":"</think>"}'),
        ('{"click":7}', '{"click":7}'),
    ],
)
def test_what_a_model_thinks_is_no_reply(content: str, text: str) -> None:
    assert without_reasoning(content) == text


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": '{"click":7}', "reasoning_content": '{"click":1}'}, '{"click":7}'),
        ({"content": None, "reasoning": '{"click":1}'}, ""),
        ({"content": None, "refusal": "I can't."}, "I can't."),
        ({"content": [{"type": "thinking", "thinking": "1"}, {"type": "text", "text": '{"click":7}'}]}, '{"click":7}'),
        ({"content": "so", "tool_calls": [{"function": {"name": "act", "arguments": '{"click":7}'}}]}, '{"click":7}'),
        ({"content": "", "tool_calls": [{"function": {"name": "act", "arguments": {"click": 7}}}]}, '{"click": 7}'),
    ],
)
def test_where_the_reply_stands(message: dict[str, Any], text: str) -> None:
    assert read({"choices": [{"message": message, "finish_reason": "stop"}]}).text == text


@pytest.mark.parametrize(
    ("name", "arguments", "action"),
    [
        ("click", '{"id": 3}', {"action": "click", "id": 3}),
        ("browser_click", {"ref": "3"}, {"action": "click", "id": 3}),
        ("fill", '{"id": 3, "text": "say \\"{}\\""}', {"action": "fill", "id": 3, "text": 'say "{}"'}),
        ("back", None, {"action": "back"}),
        ("go_back", "", {"action": "back"}),
        ("finish", "{}", {"action": "finish"}),
        ("perform", '{"action": {"click": 3}}', {"action": "click", "id": 3}),
        ("act", '{"action": {"click": 3}}', {"action": "click", "id": 3}),
        ("click", '{"id": 3', None),
        ("weather", '{"city": "Paris"}', None),
    ],
)
def test_a_call_of_another_function_keeps_its_name(name: str, arguments: Any, action: dict[str, Any] | None) -> None:
    message = {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
    text = read({"choices": [{"message": message, "finish_reason": "stop"}]}).text
    found = parse(text, {3}).action
    assert (None if found is None else found.to_dict()) == action


@pytest.mark.parametrize(
    ("told", "reason"), [("stop", "eos"), ("tool_calls", "eos"), (None, "eos"), ("length", "length")]
)
def test_why_sampling_ended(told: str | None, reason: str) -> None:
    assert read({"choices": [{"message": {"content": "x"}, "finish_reason": told}]}).finish_reason == reason


def test_logprobs_that_do_not_fit_the_tokens_are_dropped() -> None:
    entries = [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.0}]
    choice = {"message": {"content": "ab"}, "logprobs": {"content": entries}}
    assert read({"choices": [choice]}).logprobs == [-0.5, -1.0]
    assert read({"choices": [choice | {"token_ids": [1, 2, 3]}]}).logprobs == []


def test_sampling_defaults_and_fields_of_ones_own(asking: Callable[..., OpenAIPolicy]) -> None:
    bodies: list[dict[str, Any]] = []

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        bodies.append(body)
        answer(handler, body=completion())

    asking(handle, endpoint="vllm").complete([ASK, ASK], temperature=0.7, max_new_tokens=9, seed=2**40)
    assert {"temperature": 0.7, "max_tokens": 9, "top_k": -1, "top_p": 1.0}.items() <= bodies[0].items()
    assert {bodies[0]["seed"], bodies[1]["seed"]} == {0, 1}
    options: dict[str, Any] = {"extra_body": {"reasoning_effort": "low"}, "omit": ("temperature",)}
    asking(handle, endpoint="openai", **options).complete([ASK], max_new_tokens=9)
    fields = {"model": "m", "messages": [{"role": "user", "content": "Click Submit."}]}
    assert bodies[2] == {**fields, "max_completion_tokens": 9, "reasoning_effort": "low"}


def test_any_field_can_be_left_out_and_ones_own_come_last(asking: Callable[..., OpenAIPolicy]) -> None:
    bodies: list[dict[str, Any]] = []

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        bodies.append(body)
        answer(handler, body=completion())

    asking(handle, tools=True, omit=("seed", "parallel_tool_calls", "messages")).complete([ASK], seed=7)
    assert bodies[0].keys() & {"seed", "parallel_tool_calls", "messages"} == {"messages"}
    asking(handle, extra_body={"seed": 3}).complete([ASK], seed=7)
    assert bodies[1]["seed"] == 3


def test_a_server_without_tokenize_is_asked_once(asking: Callable[..., OpenAIPolicy]) -> None:
    policy = asking(in_turn(status(404), drop), endpoint="vllm")
    assert policy.count_tokens("some words") > 0
    assert policy.count_tokens("some words") > 0, "or the dropped connection would show"
    assert policy.totals.requests == 0
    assert policy.complete([ASK])[0].usage.attempts == 2  # type: ignore[union-attr]


def test_keys(monkeypatch: pytest.MonkeyPatch, asking: Callable[..., OpenAIPolicy]) -> None:
    sent: list[str | None] = []

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        sent.append(handler.headers.get("authorization"))
        answer(handler, body=completion())

    monkeypatch.setenv("NVIDIA_API_KEY", "from-nvidia")
    monkeypatch.setenv("OPENAI_API_KEY", "from-openai")
    for options in ({"endpoint": "nim"}, {"endpoint": "nim", "api_key": "given"}, {}):
        asking(handle, **{"api_key": None, **options}).complete([ASK])
    assert sent == ["Bearer from-nvidia", "Bearer given", "Bearer none"], "no key goes to a server that it is not for"
    monkeypatch.delenv("NVIDIA_API_KEY")
    with pytest.raises(ValueError, match="set NVIDIA_API_KEY, or pass api_key="):
        agents.make("openai", model="m", endpoint="nim")


def test_a_closed_policy_says_so(asking: Callable[..., OpenAIPolicy]) -> None:
    policy = asking(in_turn())
    policy.close()
    policy.close()
    with pytest.raises(RuntimeError, match="closed"):
        policy.complete([ASK])


def test_the_thread_ends_with_the_policy(asking: Callable[..., OpenAIPolicy]) -> None:
    with serve_raw(in_turn()) as url:
        policy = OpenAIPolicy("m", base_url=url, api_key=KEY)
        policy.complete([ASK])
        thread = policy._background._thread
        del policy
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": ""}, "model="), ({"endpoint": "azure"}, "nim, vllm"), ({"base_url": "localhost:8000"}, "http://"),
        ({"endpoint": "nim", "guidance": "grammar"}, "supports no grammars"), ({"max_concurrency": 0}, "at least 1"),
        ({"tools": True, "guidance": "grammar"}, "supports no grammars"), ({"timeout": 0}, "above 0"),
        ({"tokenizer": object()}, "no chat template"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        OpenAIPolicy(**{"model": "m", "base_url": "http://localhost:1/v1", "api_key": KEY, **options})


def test_calls_that_do_not_fit(asking: Callable[..., OpenAIPolicy]) -> None:
    policy = asking(in_turn())
    for options, says in (
        ({"grammars": ["start: \"a\""]}, "guidance=schema, but a grammar"), ({"schemas": [{}, {}]}, "2 schemas"),
        ({"temperature": -1.0}, "temperature"), ({"max_new_tokens": 0}, "max_new_tokens"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            policy.complete([ASK], **options)  # type: ignore[arg-type]
    assert policy.complete([]) == []
    assert policy.totals.requests == 0


def test_the_package_is_imported_when_needed() -> None:
    import subprocess
    import sys

    code = (
        "import sys, agents.policies.openai.policy; assert not {'openai', 'transformers', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
    assert set(ENDPOINTS) >= {"nim", "vllm", "trtllm", "openai", "ollama"}
