"""Why a group rebalanced: what a trace means to a person.

Decides how the events of `docs/trace.md` become rebalances with phases, blame, a bill and advice. It reads events
alone, from a file, standard input or a running server, and knows neither sockets nor the coordinator that wrote them.
"""
