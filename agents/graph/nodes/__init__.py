"""The nodes of the graph, one per module.

`run(state, live)` returns the changed entries of the state, `route(state)` the next node, which is one of `NEXT`.
"""
