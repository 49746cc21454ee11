"""The words of the page: those of causes, by the pages of `kafka-shim why --explain`, and those of invariants."""

from __future__ import annotations

from typing import Final

from kafka_shim.trace.causes import MEANING, Cause
from kafka_shim.why.pages import PAGES

INVARIANTS: Final = {
    "I1": "two members owned a partition at the same time",
    "I2": "a generation or an epoch went back",
    "I3": "a waiting request was answered too late",
    "I4": "an answer left before its records were durable",
    "I5": "the records do not give the state of the group",
    "I6": "a client outside the group was answered as a member",
    "I7": "a generation had two leaders, or a follower got the list of members",
    "I8": "a fenced member was accepted again",
    "I9": "a rebalance had no cause, or two",
    "I10": "a timer ran for a member that had left",
    "I11": "a committed offset changed without a commit",
}
"""By invariant, the observation that breaks it."""


def because(cause: str) -> str:
    """Return the meaning of a cause, as a sentence."""
    return MEANING[Cause(cause)] if cause in MEANING else "The request that began it did not pass the relay."


def remedy(cause: str) -> str:
    """Return the general remedy for a cause, which the history of a group may contradict."""
    return PAGES[cause].remedy if cause in PAGES else ""


def several(count: int, one: str, more: str = "") -> str:
    """Return a number with its noun."""
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"
