"""Arrows between the states of a group: the label of each, and the rules of docs/semantics behind it.

`tests/why/rules.py` writes the page's texts from it, and tests compare it with the tables of the rules and with groups
in random histories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka_shim.groups.classic.states import Rule, State
from kafka_shim.groups.consumer import states as consumer
from kafka_shim.groups.share import states as share
from kafka_shim.groups.streams import states as streams


class Arrow(NamedTuple):
    """One arrow. `rules` are those of the classic table that may follow it; `cites` are rules of semantics."""

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
    # The rule that begins a round also ends it if there is no member to wait for.
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
_LAST_GOES: Final = "last one goes"
_DELETED: Final = "deleted or expired"

_CE, _CA, _CR, _CS, _CD = consumer.GroupState
_LAST_CONSUMER: Final = Arrow(_LAST_GOES, (), ("4.1 step 2", "4.6 step 6", "4.7 step 1"))

CONSUMER: Final[Mapping[tuple[consumer.GroupState, consumer.GroupState], Arrow]] = {
    (_CE, _CA): Arrow("joins", (), ("4.3 step 1", "4.5 step 7")),
    (_CA, _CR): Arrow("target computed", (), ("4.1 step 3", "4.5 step 4")),
    (_CR, _CS): Arrow("all have arrived", (), ("4.1 step 2", "4.6 step 2", "4.6 step 3")),
    (_CR, _CA): _NEW_EPOCH,
    (_CS, _CA): _NEW_EPOCH,
    (_CS, _CR): Arrow("a static member is away", (), ("4.1 step 2", "4.7 step 2")),
    (_CA, _CE): _LAST_CONSUMER,
    (_CR, _CE): _LAST_CONSUMER,
    (_CS, _CE): _LAST_CONSUMER,
    (_CE, _CD): Arrow(_DELETED, (), ("2.11 step 8", "3.4 step 2")),
}

_HE, _HS, _HD = share.GroupState

SHARE: Final[Mapping[tuple[share.GroupState, share.GroupState], Arrow]] = {
    (_HE, _HS): Arrow("joins", (), ("4.13 step 2", "4.13 step 3")),
    (_HS, _HE): Arrow(_LAST_GOES, (), ("4.13 step 6",)),
    (_HE, _HD): Arrow("deleted", (), ("2.11 step 8", "4.13 step 6")),
}

_TE, _TN, _TA, _TR, _TS, _TD = streams.GroupState
_NOT_READY: Final = Arrow("topics are missing, or have wrong numbers of partitions", (), ("4.12 step 5", "4.12 step 7"))
_NEW_TASKS: Final = Arrow("new group epoch", (), ("4.12 step 7", "4.12 step 13"))
_LAST_STREAMS: Final = Arrow(_LAST_GOES, (), ("4.12 step 12", "4.12 step 13"))

STREAMS: Final[Mapping[tuple[streams.GroupState, streams.GroupState], Arrow]] = {
    (_TE, _TA): Arrow("joins", (), ("4.12 step 3", "4.12 step 8")),
    (_TE, _TN): Arrow("joins, topics are missing", (), ("4.12 step 3", "4.12 step 5", "4.12 step 7")),
    (_TN, _TA): Arrow("ready", (), ("4.12 step 5", "4.12 step 7")),
    (_TA, _TR): Arrow("target computed", (), ("4.12 step 8", "4.12 step 9")),
    (_TR, _TS): Arrow("all have arrived", (), ("4.12 step 10",)),
    (_TR, _TA): _NEW_TASKS,
    (_TS, _TA): _NEW_TASKS,
    (_TA, _TN): _NOT_READY,
    (_TR, _TN): _NOT_READY,
    (_TS, _TN): _NOT_READY,
    (_TN, _TE): _LAST_STREAMS,
    (_TA, _TE): _LAST_STREAMS,
    (_TR, _TE): _LAST_STREAMS,
    (_TS, _TE): _LAST_STREAMS,
    (_TE, _TD): Arrow(_DELETED, (), ("2.11 step 8", "3.4 step 2")),
}

MACHINES: Final[Mapping[str, Mapping[Any, Arrow]]] = {
    "classic": CLASSIC,
    "consumer": CONSUMER,
    "share": SHARE,
    "streams": STREAMS,
}
"""By kind of group. One request may follow several arrows of a group with epochs: the first member joins, the target is
computed, and the member reaches it.
"""
