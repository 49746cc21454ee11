"""Explanation of rebalances: from the events of a trace to phases, slow members, costs and advice.

It reads the events of `docs/trace.md` from a file, standard input or a running server.
"""
