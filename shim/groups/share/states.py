"""States of a share group (KIP-932), the member epochs with a meaning of their own, and the table of heartbeats.

Decides what a heartbeat does: `RULES`, by what it is for and what it finds. How each is carried out is in
`heartbeat.py`. After Kafka's `ShareGroup.ShareGroupState` and `GroupMetadataManager.shareGroupHeartbeat`
(semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final, TypeGuard

from kafka_shim.apis.wire.errors import ErrorCode

JOIN: Final = 0
"""The member epoch of a heartbeat that joins."""
LEAVE: Final = -1
"""The member epoch of a heartbeat that leaves; also that of a member whose current assignment was deleted."""

_LONGEST_ID: Final = 36


def is_member_id(text: str | None) -> TypeGuard[str]:
    """Whether a member of a share group may have this id: as long as a UUID is written, at most, as Java counts.

    After `KafkaApis.isMemberIdValid`.
    """
    return text is not None and 0 < len(text.encode("utf-16-le", "surrogatepass")) <= 2 * _LONGEST_ID


class GroupState(StrEnum):
    """The state of a group. It follows from its members and is stored nowhere."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class Trigger(Enum):
    """What a heartbeat is for, by its member epoch."""

    JOIN = "ShareGroupHeartbeat that joins (epoch 0)"
    STAY = "ShareGroupHeartbeat of a member (epoch above 0)"
    LEAVE = "ShareGroupHeartbeat that leaves (epoch -1)"


class Situation(Enum):
    """What a heartbeat finds."""

    NO_GROUP = "no group"
    OTHER_KIND = "a group of another kind"
    FULL = "a full group that it is not in"
    NO_MEMBER = "a group that it is not in"
    EPOCH = "the member, at this epoch or one after it"
    OTHER_EPOCH = "the member, at another epoch"


class Rule(Enum):
    """What is done then."""

    CREATE = "create the group with this member"
    HEAR = "hear it and renew its session"
    REMOVE = "remove the member"
    REFUSE_NOT_FOUND = "GROUP_ID_NOT_FOUND (69)"
    REFUSE_UNKNOWN = "UNKNOWN_MEMBER_ID (25)"
    REFUSE_FENCED = "FENCED_MEMBER_EPOCH (110)"
    TURN_AWAY = "GROUP_MAX_SIZE_REACHED (81)"


def _row(*rules: Rule) -> Mapping[Situation, Rule]:
    return dict(zip(Situation, rules, strict=True))


_NOT_FOUND, _UNKNOWN = Rule.REFUSE_NOT_FOUND, Rule.REFUSE_UNKNOWN
RULES: Final[Mapping[Trigger, Mapping[Situation, Rule]]] = {
    Trigger.JOIN: _row(Rule.CREATE, _NOT_FOUND, Rule.TURN_AWAY, Rule.HEAR, Rule.HEAR, Rule.HEAR),
    Trigger.STAY: _row(_NOT_FOUND, _NOT_FOUND, Rule.TURN_AWAY, _UNKNOWN, Rule.HEAR, Rule.REFUSE_FENCED),
    Trigger.LEAVE: _row(_NOT_FOUND, _NOT_FOUND, _UNKNOWN, _UNKNOWN, Rule.REMOVE, Rule.REMOVE),
}

ERRORS: Final[Mapping[Rule, ErrorCode]] = dict.fromkeys(Rule, ErrorCode.NONE) | {
    Rule.REFUSE_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    Rule.REFUSE_UNKNOWN: ErrorCode.UNKNOWN_MEMBER_ID,
    Rule.REFUSE_FENCED: ErrorCode.FENCED_MEMBER_EPOCH,
    Rule.TURN_AWAY: ErrorCode.GROUP_MAX_SIZE_REACHED,
}
"""The error that a rule answers with, NONE for those that accept."""


class TimerKind(StrEnum):
    """What a timer of a share group waits for."""

    SESSION = "session"
