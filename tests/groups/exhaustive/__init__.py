"""A model checker on the rules themselves: every order of steps of a few members, up to a depth.

    python -m tests.groups.exhaustive [KIND...] --depth N

The rules are pure and time is a number, so a state is data: the durable records, the memory of the coordinator and the
knowledge of each client. The checker tries every step from each state, visits each state once, and checks the
invariants in it (I1, I2, I5, I6, I7, I10 of docs/conformance.md). `explore.py` knows no kind of group, the other
modules have one world each.
"""
