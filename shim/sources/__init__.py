"""Logs of brokers and clients as events of the trace, for groups without a server or relay of ours.

`lines.py` reads files, `patterns.py` finds the lines about groups, `layouts.py` strips the layout around their text,
and the tables of programs turn them into signs, which are listed in `signs.py`.
"""
