"""The arrows between the states of a group: what leads along each, and which rules of docs/semantics.md say so.

Decides nothing: rules decide. `tests/why/rules.py` writes the page's texts from it, and tests compare it with the
tables of the rules and with what groups do in random histories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafka_shim.groups.classic.states import Rule, State
from kafka_shim.groups.consumer.states import GroupState


class Arrow(NamedTuple):
    """One arrow. `rules` are those of the classic table that may lead along it; `cites` are rules of semantics."""

    label: str
    rules: tuple[Rule, ...]
    cites: tuple[str, ...]


_E, _P, _C, _S, _D = State

_ENDS_ROUND: Final = (
    Rule.END_ROUND,
    Rule.LEAVE_IN_ROUND,
    Rule.EXPIRE_IN_ROUND,
    Rule.FORGET_PENDING_IN_ROUND,
)
_BEGINS: Final = (Rule.ADD, Rule.REJOIN, Rule.LEAVE, Rule.EXPIRE, Rule.EXPEL_UNSYNCED)
_UNLOADED: Final = Arrow("moved to another broker", (), ("2.1 step 2",))

CLASSIC: Final[Mapping[tuple[State, State], Arrow]] = {
    (_E, _P): Arrow("joins", (Rule.ADD,), ("2.4 step 2", "2.4 step 3")),
    # What begins a round also ends it where there is nobody to wait for.
    (_P, _E): Arrow(
        "nobody joined",
        (*_ENDS_ROUND, Rule.LEAVE, Rule.EXPIRE, Rule.EXPEL_UNSYNCED),
        ("2.5 step 4", "2.5 step 5"),
    ),
    (_P, _C): Arrow(
        "all joined, or time is up",
        (
            *(*_ENDS_ROUND, Rule.ADD_IN_ROUND, Rule.REJOIN_IN_ROUND, Rule.TAKE_OVER_IN_ROUND),
            *(Rule.REJOIN, Rule.TAKE_OVER, Rule.TAKE_OVER_STABLE),
        ),
        ("2.4 step 3", "2.4 step 4", "2.5 step 1", "2.5 step 5"),
    ),
    (_C, _S): Arrow("leader's SyncGroup", (Rule.ASSIGN,), ("2.6 step 1", "2.6 step 2")),
    (_C, _P): Arrow(
        "joins, leaves or is missed",
        (*_BEGINS, Rule.TAKE_OVER, Rule.REJECT_ASSIGNMENTS),
        ("2.4 step 1", "2.6 step 3", "2.6 step 5", "2.7 step 2"),
    ),
    (_S, _P): Arrow(
        "joins, leaves or is missed",
        (*_BEGINS, Rule.TAKE_OVER_STABLE, Rule.SHRINK),
        ("2.4 step 2", "2.4 step 4", "2.7 step 2", "2.8 step 6"),
    ),
    (_E, _D): Arrow("deleted or expired", (Rule.DELETE,), ("2.1 step 1", "2.1 step 2")),
    (_P, _D): _UNLOADED,
    (_C, _D): _UNLOADED,
    (_S, _D): _UNLOADED,
}

_NEW_EPOCH: Final = Arrow("new group epoch", (), ("4.1 step 1", "4.5 step 2", "4.7 step 1"))

CONSUMER: Final[Mapping[tuple[GroupState, GroupState], Arrow]] = {
    (GroupState.EMPTY, GroupState.ASSIGNING): Arrow("joins", (), ("4.3 step 1", "4.5 step 7")),
    (GroupState.ASSIGNING, GroupState.RECONCILING): Arrow("target computed", (), ("4.1 step 3", "4.5 step 4")),
    (GroupState.RECONCILING, GroupState.STABLE): Arrow(
        "all have arrived", (), ("4.1 step 2", "4.6 step 2", "4.6 step 3")
    ),
    (GroupState.RECONCILING, GroupState.ASSIGNING): _NEW_EPOCH,
    (GroupState.STABLE, GroupState.ASSIGNING): _NEW_EPOCH,
    (GroupState.EMPTY, GroupState.DEAD): Arrow("deleted or expired", (), ("4.3 step 2",)),
    (GroupState.STABLE, GroupState.DEAD): Arrow("moved to another broker", (), ("2.1 step 2",)),
}
