"""The nodes, one in each file.

`run(state, live)` returns what changes in the state, `route(state)` the next node, which is one of `NEXT`.
"""
