"""`selfsurf mcp` as a command: a session of a real MCP client is an episode."""

import asyncio
import json
import sys

import pytest
from typer.testing import CliRunner

from selfsurf.browser_env.record.episode import Episode
from selfsurf.browser_env.record.verdict import verdict_of
from selfsurf.scripts import cli
from tests.processes import crowd, until

SHOP = (
    "data:text/html,<label>Name <input id=n></label><button onclick=\"out.textContent = 'Ordered for ' + n.value\">"
    "Order</button><p id=out></p>"
)


@pytest.mark.slow
def test_a_session_is_an_episode_that_is_marked_and_learned_from(tmp_path, tiny):
    mcp = pytest.importorskip("mcp")
    stdio = pytest.importorskip("mcp.client.stdio")
    goal, folder = "Order for Ada.", tmp_path / "episode"
    command = ["-m", "selfsurf.scripts.cli", "mcp", "--goal", goal, "--out", str(folder)]

    async def play():
        server = stdio.StdioServerParameters(command=sys.executable, args=command)
        async with stdio.stdio_client(server) as streams, mcp.ClientSession(*streams) as client:
            await client.initialize()

            async def said(name, **arguments):
                return json.loads((await client.call_tool(f"browser_{name}", arguments)).content[0].text)

            page = await said("navigate", url=SHOP)
            assert '[1] textbox "Name"' in page["change"]
            assert '[2] button "Order"' in page["change"]
            filled = await said("act", action={"action": "fill", "id": 1, "text": "Ada"})
            assert "Ada" in filled["change"]
            assert "error" in await said("act", action={"action": "click", "id": 99})
            ordered = await said("act", action={"action": "click", "id": 2})
            assert "Ordered for Ada" in ordered["change"]

    asyncio.run(asyncio.wait_for(play(), 60 * crowd()))
    until(lambda: Episode(folder).meta["ended"] is not None, 10 * crowd())
    episode = Episode(folder)
    assert (episode.meta["goal"], episode.meta["outcome"], verdict_of(episode)) == (goal, "stopped", None)
    done = [step["actions"][0] for step in episode.steps()]
    assert [one["action"] for one in done] == ["navigate", "fill", "click", "click"]
    run = CliRunner().invoke
    assert run(cli.app, ["mark", str(folder), "solved"]).exit_code == 0
    options = ["--model", str(tiny), "--out", str(tmp_path / "run"), "--steps", "1"]
    learned = run(cli.app, ["train", "--offline", "--episodes", str(folder), *options])
    assert learned.exit_code == 0, learned.output
    lines = [json.loads(one) for one in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert max(line.get("told/demonstration", 0) for line in lines) >= 1
