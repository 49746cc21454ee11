"""States of a registered group, and the table of its requests.

`RULES` has the rule for each API and situation; `rounds.py` implements them. Source: the Client Rewrite, "Consumer
Group Membership Protocol".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode


class State(StrEnum):
    EMPTY = "Empty"
    REGISTERING = "Registering"
    """Members must register again."""
    STABLE = "Stable"


class Trigger(Enum):
    """The request of a consumer."""

    REGISTER = "RegisterConsumer"
    HEARTBEAT = "ControllerHeartbeat"


class Situation(Enum):
    """The situation that a request finds."""

    NO_GROUP = "no group of this kind"
    NO_ID = "a group, and has an empty id"
    NO_MEMBER = "a group that it is not in"
    OTHER_GENERATION = "the member, in another generation"
    MEMBER = "the member, which nobody awaits"
    AWAITED = "the member, which is to register"


class Rule(Enum):
    """The effect of a request."""

    CALL_ALL = "park it; a round begins in which all register, if none is under way"
    TAKE_PART = "park it until all who are awaited have registered"
    RENEW = "renew its session"
    RENEW_AND_CALL = "renew its session, REBALANCE_IN_PROGRESS (27)"
    REFUSE_NOT_FOUND = "GROUP_ID_NOT_FOUND (69)"
    REFUSE_UNKNOWN = "UNKNOWN_MEMBER_ID (25)"
    REFUSE_GENERATION = "ILLEGAL_GENERATION (22)"


RULES: Final[Mapping[Trigger, Mapping[Situation, Rule]]] = {
    Trigger.REGISTER: {
        Situation.NO_GROUP: Rule.REFUSE_NOT_FOUND,
        Situation.NO_ID: Rule.REFUSE_UNKNOWN,
        Situation.NO_MEMBER: Rule.CALL_ALL,
        Situation.MEMBER: Rule.CALL_ALL,
        Situation.AWAITED: Rule.TAKE_PART,
    },
    Trigger.HEARTBEAT: {
        Situation.NO_GROUP: Rule.REFUSE_NOT_FOUND,
        Situation.NO_ID: Rule.REFUSE_UNKNOWN,
        Situation.NO_MEMBER: Rule.REFUSE_UNKNOWN,
        Situation.OTHER_GENERATION: Rule.REFUSE_GENERATION,
        Situation.MEMBER: Rule.RENEW,
        Situation.AWAITED: Rule.RENEW_AND_CALL,
    },
}

ERRORS: Final[Mapping[Rule, ErrorCode]] = dict.fromkeys(Rule, ErrorCode.NONE) | {
    Rule.RENEW_AND_CALL: ErrorCode.REBALANCE_IN_PROGRESS,
    Rule.REFUSE_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    Rule.REFUSE_UNKNOWN: ErrorCode.UNKNOWN_MEMBER_ID,
    Rule.REFUSE_GENERATION: ErrorCode.ILLEGAL_GENERATION,
}
"""The error of each rule's answer, NONE for those that accept or park."""
