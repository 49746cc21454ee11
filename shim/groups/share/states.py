"""States of a share group (KIP-932), and the rule of a heartbeat for each epoch and situation of its member.

`RULES` selects the rule of a heartbeat by its purpose and its situation; `heartbeat.py` carries it out. After Kafka's
`ShareGroup.ShareGroupState` and `GroupMetadataManager.shareGroupHeartbeat` (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final, TypeGuard

from kafka_shim.apis.wire.errors import ErrorCode

_LONGEST_ID: Final = 36


def is_member_id(text: str | None) -> TypeGuard[str]:
    """Return True if the id has at most the length of a UUID, counted in UTF-16 units as in Java.

    After `KafkaApis.isMemberIdValid`.
    """
    return text is not None and 0 < len(text.encode("utf-16-le", "surrogatepass")) <= 2 * _LONGEST_ID


class GroupState(StrEnum):
    """State of a group, derived from its members and not stored."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class Trigger(Enum):
    """Purpose of a heartbeat, by its member epoch."""

    JOIN = "ShareGroupHeartbeat that joins (epoch 0)"
    STAY = "ShareGroupHeartbeat of a member (epoch above 0)"
    LEAVE = "ShareGroupHeartbeat that leaves (epoch -1)"


class Situation(Enum):
    """Situation of the group and the member at a heartbeat."""

    NO_GROUP = "no group"
    OTHER_KIND = "a group of another kind"
    FULL = "a full group without this member"
    NO_MEMBER = "a group without this member"
    EPOCH = "the member, at this epoch or the next one"
    OTHER_EPOCH = "the member, at another epoch"


class Rule(Enum):
    """Rule for a heartbeat."""

    CREATE = "create the group with this member"
    APPLY = "apply it and renew the session"
    REMOVE = "remove the member"
    REFUSE_NOT_FOUND = "GROUP_ID_NOT_FOUND (69)"
    REFUSE_UNKNOWN = "UNKNOWN_MEMBER_ID (25)"
    REFUSE_FENCED = "FENCED_MEMBER_EPOCH (110)"
    REFUSE_FULL = "GROUP_MAX_SIZE_REACHED (81)"


def _row(*rules: Rule) -> Mapping[Situation, Rule]:
    return dict(zip(Situation, rules, strict=True))


_NOT_FOUND, _UNKNOWN = Rule.REFUSE_NOT_FOUND, Rule.REFUSE_UNKNOWN
RULES: Final[Mapping[Trigger, Mapping[Situation, Rule]]] = {
    Trigger.JOIN: _row(Rule.CREATE, _NOT_FOUND, Rule.REFUSE_FULL, Rule.APPLY, Rule.APPLY, Rule.APPLY),
    Trigger.STAY: _row(_NOT_FOUND, _NOT_FOUND, Rule.REFUSE_FULL, _UNKNOWN, Rule.APPLY, Rule.REFUSE_FENCED),
    Trigger.LEAVE: _row(_NOT_FOUND, _NOT_FOUND, _UNKNOWN, _UNKNOWN, Rule.REMOVE, Rule.REMOVE),
}

ERRORS: Final[Mapping[Rule, ErrorCode]] = dict.fromkeys(Rule, ErrorCode.NONE) | {
    Rule.REFUSE_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    Rule.REFUSE_UNKNOWN: ErrorCode.UNKNOWN_MEMBER_ID,
    Rule.REFUSE_FENCED: ErrorCode.FENCED_MEMBER_EPOCH,
    Rule.REFUSE_FULL: ErrorCode.GROUP_MAX_SIZE_REACHED,
}
"""Error code of each rule, NONE for those that accept."""
