"""The graph agent: nodes that observe, plan, judge, act and evaluate the result, in one run per episode.

`agent.py` is the agent, `wiring.py` the graph, `nodes/` the nodes; the rest are pure functions over `state.py`.
Requires LangGraph, which is imported when the first episode begins.
"""
