"""The agent of a graph: nodes that observe, plan, judge, act and weigh what came of it, one run of them an episode.

`agent.py` is the agent, `wiring.py` the graph, `nodes/` what each node does; the rest are pure functions over
`state.py`. It stands on LangGraph, which is imported when the first episode begins.
"""
