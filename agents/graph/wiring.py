"""Builds the graph from its nodes and their edges."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.narration import narrated
from selfsurf.agents.graph.state import GraphState, extended
from selfsurf.extras import how_to_install

NODES = (
    "observe", "loop_mitigation", "goal_check", "planner", "safety", "confirm", "execute", "progress", "ask_user",
    "error_retry",
)  # fmt: skip
"""Names of the nodes (modules in `nodes/`), in the order of a step."""

PACKAGES = ("langgraph", "langgraph.checkpoint.sqlite")

Tell = Callable[[str, str, GraphState, GraphState, str, float], None]
"""Callback for each completed node: node, next node, state after it, changed entries, narration, duration in seconds.
"""


class Node(Protocol):
    """The interface of the modules in `nodes/`."""

    NEXT: tuple[str, ...]

    def run(self, state: GraphState, live: Live) -> GraphState:
        """Run the node and return the changed entries of the state."""

    def route(self, state: GraphState) -> str:
        """Return the next node, one of `NEXT`."""


def node(name: str) -> Node:
    """Import a node by its name."""
    return cast(Node, import_module(f"selfsurf.agents.graph.nodes.{name}"))


def edges() -> list[tuple[str, str]]:
    """Return all edges as pairs of node names, in order; the end is `END`."""
    return [(name, following) for name in NODES for following in node(name).NEXT]


def check_installed() -> None:
    """Raise an error unless LangGraph is installed.

    Raises:
        ImportError: LangGraph is missing; the message tells how to install it.
    """
    try:
        for package in PACKAGES:
            import_module(package)
    except ImportError:
        raise ImportError(
            f"The agent graph needs langgraph and langgraph-checkpoint-sqlite: {how_to_install('graph')}."
        ) from None


def build(saver: Any, tell: Tell) -> Any:
    """Compile the graph.

    Args:
        saver: stores the checkpoints.
        tell: callback for each completed node.
    """
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")  # checkpoints are data and must not import code
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(GraphState, context_schema=Live)
    for name in NODES:
        part = node(name)
        graph.add_node(name, _runs(name, part, tell))
        graph.add_conditional_edges(name, part.route, {one: END if one == "END" else one for one in part.NEXT})
    graph.add_edge(START, NODES[0])
    return graph.compile(checkpointer=saver)


def _runs(name: str, part: Node, tell: Tell) -> Callable[..., GraphState]:
    from langgraph.runtime import Runtime
    from langgraph.types import interrupt

    def run(state: GraphState, runtime: Any) -> GraphState:
        began, live = time.monotonic(), runtime.context
        live.pause = interrupt
        change = part.run(state, live)
        said = narrated(name, cast(GraphState, {**state, **change}))
        change["ux"] = extended(state["ux"], said)
        after = cast(GraphState, {**state, **change})
        tell(name, part.route(after), after, change, said, time.monotonic() - began)
        return change

    run.__annotations__ = {"state": GraphState, "runtime": Runtime[Live], "return": GraphState}
    return run


def mermaid() -> str:
    """Return the graph as a Mermaid diagram."""
    lines = ["graph TD", "    START([start]) --> observe"]
    for begin, end in edges():
        lines.append(f"    {begin} --> {'END([end])' if end == 'END' else end}")
    return "\n".join(lines) + "\n"
