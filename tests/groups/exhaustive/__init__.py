"""Every order of steps of a few members, up to a depth: a model checker whose model is the rules themselves.

    python -m tests.groups.exhaustive [KIND...] --depth N

The rules are pure and time is a number, so a state is data: what is durable, what the coordinator keeps in memory, and
what each client knows. From each state every step is tried. A state that was seen is not looked at again, and each is
checked for what holds in all (I1, I2, I5, I6, I7, I10 of docs/conformance.md). `explore.py` knows no kind of group, the
other modules have one world each.
"""
