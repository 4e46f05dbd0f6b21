"""The graph itself: which node is followed by which."""

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
"""The files of `nodes/`, in the order of a step."""

PACKAGES = ("langgraph", "langgraph.checkpoint.sqlite")

Tell = Callable[[str, str, GraphState, GraphState, str, float], None]
"""Is told of each node that has run: its name, the next one's, the state after it, what it changed, what people are
told of it, seconds."""


class Node(Protocol):
    """What a file of `nodes/` holds."""

    NEXT: tuple[str, ...]

    def run(self, state: GraphState, live: Live) -> GraphState:
        """Do it, and return what changes."""

    def route(self, state: GraphState) -> str:
        """Return which of `NEXT` follows."""


def node(name: str) -> Node:
    """Return a node by its name."""
    return cast(Node, import_module(f"selfsurf.agents.graph.nodes.{name}"))


def edges() -> list[tuple[str, str]]:
    """Return all edges, from node to node, in order; the end is `END`."""
    return [(name, following) for name in NODES for following in node(name).NEXT]


def check_installed() -> None:
    """Make sure that LangGraph is there.

    Raises:
        ImportError: it is not; the message says what to install.
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
        saver: keeps its checkpoints.
        tell: is told of each node that has run.
    """
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")  # a checkpoint is data: nothing in it is to be imported
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
