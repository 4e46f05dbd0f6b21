"""The calls as tools: of Python, of OpenAI, and of a real MCP client that speaks to `selfsurf mcp` over stdio."""

import asyncio
import base64
import io
import json
import signal
import sys
from functools import partial
from importlib.metadata import version

import psutil
import pytest
from PIL import Image
from pydantic import BaseModel

from selfsurf.browser_env import Safety
from selfsurf.browser_env.router.providers.playwright import PlaywrightProvider
from selfsurf.browser_env.router.router import Router
from selfsurf.browser_env.router.tools import ToolError, call_tool, functions, openai_tools, parsed
from tests.processes import crowd, gone, until

PAGE = (
    "data:text/html,<title>Shop</title><h1>Shop</h1><label>Name <input></label>"
    "<button onclick=\"document.title='pressed'\">Go</button>"
)
NAMES = ["navigate", "act", "extract", "observe", "screenshot"]
ON_PAGE = (
    "click, fill, type, press, select, hover, scroll, drag, upload, navigate, back, forward, reload, new_tab, close_tab, "
    "focus_tab, wait"
)


class Heading(BaseModel):
    heading: str


async def reads(messages, schema):
    return json.dumps({"heading": "Shop"})


def test_a_model_calls_them_by_name_and_gets_plain_data_or_an_error():
    router = Router([PlaywrightProvider(complete=reads, safety=Safety())])

    async def play():
        assert (await call_tool(router, "browser.navigate", {"url": PAGE}))["title"] == "Shop"
        seen = await call_tool(router, "browser_observe", "{}")
        assert '[2] button "Go"' in seen["outline"]
        assert "elements" not in seen
        acted = await call_tool(router, "act", json.dumps({"action": {"action": "click", "id": 2}}))
        assert acted["title"] == "pressed"
        picture = await call_tool(router, "screenshot", {})
        assert Image.open(io.BytesIO(base64.b64decode(picture["png"]))).size == (1280, 720)
        schema = {"type": "object", "properties": {"heading": {"type": "string"}}, "required": ["heading"]}
        read = await call_tool(router, "extract", {"instruction": "the heading", "schema": schema})
        assert read["data"] == {"heading": "Shop"}
        wrong = {
            "browser.fly": ({}, "There is no tool 'browser.fly'"), "browser.navigate": ("{", "browser.navigate"),
            "browser.act": ({"action": {"action": "click", "id": 2, "colour": "red"}}, "colour"),
        }  # fmt: skip
        for name, (arguments, said) in wrong.items():
            error = (await call_tool(router, name, arguments))["error"]
            assert (error["type"], error["retryable"], said in error["message"]) == ("invalid_arguments", False, True)
        gone = (await call_tool(router, "act", {"action": {"action": "click", "id": 99}}))["error"]
        assert gone["type"] == "not_found"
        made = {function.__name__: function for function in functions(router)}
        assert list(made) == [f"browser_{name}" for name in NAMES]
        assert all(function.__doc__ for function in made.values())
        assert (await made["browser_extract"]("the heading", Heading))["data"] == {"heading": "Shop"}
        assert (await made["browser_act"](action={"action": "fill", "id": 1, "text": "Ada"}))["done"]
        await router.close()

    asyncio.run(play())


def test_openai_takes_their_schemas():
    tools = openai_tools()
    assert [one["function"]["name"] for one in tools] == [f"browser_{name}" for name in NAMES]
    act = tools[1]["function"]["parameters"]["properties"]["action"]
    assert {"click", "fill", "drag"} <= set(act["properties"]["action"]["enum"])
    assert "finish" not in act["properties"]["action"]["enum"]
    assert tools[2]["function"]["parameters"]["required"] == ["instruction", "schema"]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("extract", {"instruction": "the price"}, "browser.extract: schema: Field required."),
        (
            "extract",
            {"instruction": "x", "schema": {"type": "object", "properties": {"a": {}}}, "model": "x"},
            "browser.extract: model: Extra inputs are not permitted.",
        ),
        ("navigate", {"url": "x", "model": "x"}, "browser.navigate: model: Extra inputs are not permitted."),
        ("act", {"action": {"action": "dance"}}, f"browser.act: Unknown action 'dance'; the actions are {ON_PAGE}."),
        ("act", {"action": {"action": "finsh"}}, f"browser.act: Unknown action 'finsh'; the actions are {ON_PAGE}."),
        ("act", {"action": {"colour": 1}}, f"browser.act: The JSON names no action: {{'colour': 1}}; the actions are {ON_PAGE}."),
        ("act", {}, "browser.act: give either instruction or action."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_call_is_told_in_the_tools_own_words(name, arguments, message):
    with pytest.raises(ToolError) as told:
        parsed(name, arguments)
    assert str(told.value) == message


def test_schemas_bound_numbers_in_the_words_of_json_schema():
    def keys(schema):
        if isinstance(schema, dict):
            yield from schema
        for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            yield from keys(part)

    tools = openai_tools()
    assert not {"ge", "gt", "le", "lt"} & set(keys(tools))
    id = tools[1]["function"]["parameters"]["properties"]["action"]["properties"]["id"]
    assert id["anyOf"][0] == {"type": "integer", "minimum": -(2**53), "maximum": 2**53}


def test_after_a_failed_navigation_the_outline_says_that_there_is_no_page(loopback):
    url = loopback(lambda request: b"<title>Shop</title><button>Go</button>").url
    router = Router([PlaywrightProvider(safety=Safety(allowed=("127.0.0.1",)))])

    async def play():
        await call_tool(router, "navigate", {"url": url})
        assert (await call_tool(router, "navigate", {"url": "http://127.0.0.1:1/"}))["error"]["type"] == "navigation"
        for arguments in ({}, {"find": "Shop"}):
            assert "The page could not be opened" in (await call_tool(router, "observe", arguments))["outline"]
        assert (await call_tool(router, "act", {"action": {"action": "back"}}))["title"] == "Shop"
        assert '"Go"' in (await call_tool(router, "observe", {}))["outline"]
        await router.close()

    asyncio.run(play())


def test_an_mcp_client_lists_and_calls_them(tmp_path):
    mcp = pytest.importorskip("mcp")
    stdio = pytest.importorskip("mcp.client.stdio")
    command = ["-m", "selfsurf.scripts.cli", "mcp", "--attempt-log", str(tmp_path)]

    async def play():
        server = stdio.StdioServerParameters(command=sys.executable, args=command)
        async with stdio.stdio_client(server) as streams, mcp.ClientSession(*streams) as client:
            told = await client.initialize()
            assert told.server_info.version == version("selfsurf")
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == [f"browser_{name}" for name in NAMES], "some clients reject dots"
            await client.call_tool("browser_navigate", {"url": PAGE})
            seen = await client.call_tool("browser.observe", {})
            assert '[2] button "Go"' in json.loads(seen.content[0].text)["outline"]
            await client.call_tool("browser.act", {"action": {"action": "click", "id": 2}})
            picture = await client.call_tool("browser.screenshot", {})
            assert picture.structured_content["title"] == "pressed"
            assert Image.open(io.BytesIO(base64.b64decode(picture.content[1].data))).size == (1280, 720)
            refused = await client.call_tool("browser.act", {"action": {"action": "click", "id": 99}})
            assert refused.is_error
            assert json.loads(refused.content[0].text)["error"]["type"] == "not_found"
            waiting = {"action": {"action": "wait", "ms": 50_000}}
            call = asyncio.ensure_future(client.call_tool("browser.act", waiting))
            (lines,) = tmp_path.rglob("attempt.jsonl")
            begun = partial(until, lambda: lines.read_text().count('"outcome": "start"') == 6, 10 * crowd())
            assert await asyncio.to_thread(begun)
            call.cancel()
            assert not (await client.call_tool("browser.observe", {})).is_error

    asyncio.run(asyncio.wait_for(play(), 60 * crowd()))
    (attempts,) = tmp_path.rglob("attempt.jsonl")
    lines = [json.loads(line) for line in attempts.read_text().splitlines()]
    ended = [line["outcome"] for line in lines if line["outcome"] != "start"]
    assert ended == [*["success"] * 4, "failure", "cancelled", "success"]
    summary = json.loads((attempts.parent / "summary.json").read_text())
    assert (summary["decision"], summary["failures"], summary["cancelled"]) == ("stopped", 1, 1)


def test_an_mcp_client_that_prefers_small_tools_gets_one_an_action():
    mcp = pytest.importorskip("mcp")
    stdio = pytest.importorskip("mcp.client.stdio")
    command = ["-m", "selfsurf.scripts.cli", "mcp", "--tools", "small", "--changes", "40"]

    async def play():
        server = stdio.StdioServerParameters(command=sys.executable, args=command)
        async with stdio.stdio_client(server) as streams, mcp.ClientSession(*streams) as client:
            await client.initialize()
            tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            actions = [name for name in ON_PAGE.split(", ") if name != "navigate"]
            assert list(tools) == [f"browser_{name}" for name in [*NAMES[:1], *NAMES[2:], *actions]]
            assert tools["browser_fill"]["required"] == ["text"]
            page = json.loads((await client.call_tool("browser_navigate", {"url": PAGE})).content[0].text)
            assert page["change"].endswith("The rest is left out: observe the page.")
            filled = json.loads((await client.call_tool("browser_fill", {"id": 1, "text": "Ada"})).content[0].text)
            assert json.loads(filled["done"]) == {"action": "fill", "id": 1, "text": "Ada"}
            wrong = await client.call_tool("browser_click", {"id": 2, "colour": "red"})
            assert "colour" in json.loads(wrong.content[0].text)["error"]["message"]

    asyncio.run(asyncio.wait_for(play(), 60 * crowd()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_with_its_call_its_browser_and_its_log(tmp_path, number):
    mcp = pytest.importorskip("mcp")
    stdio = pytest.importorskip("mcp.client.stdio")
    command = ["-m", "selfsurf.scripts.cli", "mcp", "--attempt-log", str(tmp_path)]

    async def play():
        server = stdio.StdioServerParameters(command=sys.executable, args=command)
        async with stdio.stdio_client(server) as streams, mcp.ClientSession(*streams) as client:
            await client.initialize()
            await client.call_tool("browser_navigate", {"url": PAGE})
            call = asyncio.ensure_future(client.call_tool("browser_act", {"action": {"action": "wait", "ms": 50_000}}))
            (lines,) = tmp_path.rglob("attempt.jsonl")
            begun = partial(until, lambda: lines.read_text().count('"outcome": "start"') == 2, 10 * crowd())
            assert await asyncio.to_thread(begun)
            (process,) = [one for one in psutil.Process().children() if one.cmdline()[-len(command) :] == command]
            started = process.children(recursive=True)
            process.send_signal(number)
            assert await asyncio.to_thread(gone, [process, *started], 10 * crowd())
            call.cancel()

    asyncio.run(asyncio.wait_for(play(), 60 * crowd()))
    (summary,) = tmp_path.rglob("summary.json")
    told = json.loads(summary.read_text())
    assert (told["decision"], told["successes"], told["cancelled"]) == ("stopped", 1, 1)


@pytest.mark.parametrize("allowed", [False, True])
def test_what_an_mcp_client_is_refused_names_the_option_that_permits_it(loopback, allowed):
    mcp = pytest.importorskip("mcp")
    stdio = pytest.importorskip("mcp.client.stdio")
    url = loopback(lambda request: b"<title>Here</title>").url
    command = ["-m", "selfsurf.scripts.cli", "mcp", *["--allowed", "127.0.0.1"] * allowed]

    async def play():
        server = stdio.StdioServerParameters(command=sys.executable, args=command)
        async with stdio.stdio_client(server) as streams, mcp.ClientSession(*streams) as client:
            await client.initialize()

            async def said(name, arguments):
                return json.loads((await client.call_tool(name, arguments)).content[0].text)

            answer = await said("browser_navigate", {"url": url})
            if allowed:
                assert answer["title"] == "Here"
                return
            assert answer["error"]["type"] == "refused"
            assert "private network. " in answer["error"]["message"]
            assert "--allowed 127.0.0.1" in answer["error"]["message"]
            await said("browser_navigate", {"url": "data:text/html,<input type=file>"})
            upload = {"action": {"action": "upload", "id": 1, "files": ["a.txt"]}}
            assert "--upload-from FOLDER" in (await said("browser_act", upload))["error"]["message"]
            assert "--agent" in (await said("browser_act", {"instruction": "press it"}))["error"]["message"]
            schema = {"type": "object", "properties": {"title": {"type": "string"}}}
            read = await said("browser_extract", {"instruction": "the title", "schema": schema})
            assert "--agent" in read["error"]["message"]

    asyncio.run(asyncio.wait_for(play(), 60))


BROKEN = """
from selfsurf.browser_env.router.calls import ActResult, NavigateResult
from selfsurf.browser_env.router.provider import Provider, ProviderError

class Other(Provider):
    name = "other"

    async def act(self, arguments):
        return ActResult(url="http://site.test/", done=f"{arguments.instruction} by {self.name}")

    async def navigate(self, arguments):
        return NavigateResult(url=arguments.url)

    extract = observe = screenshot = navigate

class Broken(Other):
    name = "broken"

    async def act(self, arguments):
        raise ProviderError("not_found", "There is no such button.")
"""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), ["again", "other", "again", "other"]),
        (("--scope", "session"), ["again", "other", "other", "other"]),
        (("--retries", "2"), ["again", "again", "other", "again"]),
        (("--retries", "0"), ["other", "other", "other", "other"]),
    ],
)
def test_a_provider_that_fails_is_retried_and_passed_over_as_the_options_say(tmp_path, options, says):
    mcp = pytest.importorskip("mcp")
    stdio = pytest.importorskip("mcp.client.stdio")
    (tmp_path / "own.py").write_text(BROKEN)
    given = [part for name in ("Broken", "Other") for part in ("--provider", f"{tmp_path}/own.py:{name}")]
    command = [
        "-m",
        "selfsurf.scripts.cli",
        "mcp",
        *given,
        *options,
        "--attempt-log",
        str(tmp_path),
        "--screenshot-every",
        "0",
    ]

    async def play():
        server = stdio.StdioServerParameters(command=sys.executable, args=command)
        async with stdio.stdio_client(server) as streams, mcp.ClientSession(*streams) as client:
            await client.initialize()
            for expected in says:
                said = await client.call_tool("browser.act", {"instruction": "Press"})
                text = said.content[0].text
                assert ("once more" in text, "Press by other" in text) == (expected == "again", expected == "other")

    asyncio.run(asyncio.wait_for(play(), 60 * crowd()))
    (attempts,) = tmp_path.rglob("attempt.jsonl")
    assert len({json.loads(line)["traceId"] for line in attempts.read_text().splitlines()}) == 1
