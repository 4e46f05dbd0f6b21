"""MCP server of the browser tools on standard input and output, based on the official package `mcp` (extra `[mcp]`)."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from selfsurf.browser_env.actions import ACTION_TYPES
from selfsurf.browser_env.router.calls import ARGUMENTS
from selfsurf.browser_env.router.router import Router
from selfsurf.browser_env.router.tools import DESCRIPTIONS, action_schemas, call_tool, schemas, tool_name

_READS = ("extract", "observe", "screenshot")
"""Calls that don't change the page."""


async def serve(router: Router, *, small: bool = False) -> None:
    """Serve one client until it closes the input. Nothing else may write to standard output meanwhile.

    Args:
        router: router that performs the calls.
        small: whether each action is a tool of its own, instead of one tool `browser_act`.
    """
    from mcp.server.stdio import stdio_server

    server = make_server(router, small=small)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def make_server(router: Router, *, small: bool = False) -> Any:
    """Return an MCP server for a router's tools, usable with any transport. Arguments as for `serve`."""
    import mcp_types as types
    from mcp.server.lowlevel.server import Server

    given = schemas()
    tools = [
        types.Tool(
            name=tool_name(name, dot=False), description=DESCRIPTIONS[name], input_schema=given[name],
            annotations=types.ToolAnnotations(read_only_hint=name in _READS, open_world_hint=True),
        )
        for name in ARGUMENTS
        if not (small and name == "act")
    ]  # fmt: skip
    if small:
        tools += [
            types.Tool(name=f"browser_{name}", description=ACTION_TYPES[name].__doc__ or "", input_schema=schema)
            for name, schema in action_schemas().items()
            if name != "navigate"
        ]

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        data = await call_tool(router, params.name, params.arguments or {})
        png = data.pop("png", None)
        content: list[Any] = [types.TextContent(type="text", text=json.dumps(data, ensure_ascii=False))]
        if png is not None:
            content.append(types.ImageContent(type="image", data=png, mime_type="image/png"))
        return types.CallToolResult(content=content, structured_content=data, is_error="error" in data)

    return Server("selfsurf", version=version("selfsurf"), on_list_tools=list_tools, on_call_tool=call)
