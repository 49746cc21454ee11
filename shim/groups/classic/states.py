"""State machine of a classic group as data: its states, and the rule for each request or timer in each state.

These tables select the rule; the module named after a mechanism carries it out.

A `Trigger` is a request, by its sender and its fields, or a timer. `RULES[trigger][state]` is the rule for it, and
`ERRORS[rule]` its error. A rule that says "rebalance" moves the group to PreparingRebalance with a cause; a rule that
says "round" works within the join round under way. `GUARDS` lists the checks that refuse a request in any state.

    Empty --join--> PreparingRebalance --all joined, or timeout--> CompletingRebalance --leader synced--> Stable
      ^                |          ^                                  |                                   |
      +--no members----+          +------------ a rebalance ---------+-----------------------------------+

Every (trigger, state) pair is present; tests walk them all, and `docs/states.md` is generated from these tables.
Source: semantics 2.1 and 2.3.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode


class State(StrEnum):
    """State of a classic group, in Kafka's spelling on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_E, _P, _C, _S, _D = State

TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    _E: frozenset({_P, _D}),
    _P: frozenset({_E, _C, _D}),
    _C: frozenset({_P, _S, _D}),
    _S: frozenset({_P, _D}),
    _D: frozenset({_D}),
}
"""By state, the states that a group may change to."""


class TimerKind(StrEnum):
    """Kind of a timer; `kind.py` maps it to its rule."""

    SESSION = "session"
    PENDING_MEMBER = "pending-member"
    JOIN = "join"
    SYNC = "sync"


class Trigger(StrEnum):
    """Event at a group that selects a rule."""

    JOIN_NEW = "JoinGroup without an id, dynamic, before v4"
    JOIN_NEW_ID_REQUIRED = "JoinGroup without an id, dynamic, v4 and later"
    JOIN_NEW_STATIC = "JoinGroup without an id, with an instance id the group does not have"
    JOIN_TAKE_OVER = "JoinGroup without an id, with an instance id the group has"
    JOIN_PENDING = "JoinGroup with an id handed out by error 79"
    JOIN_SAME = "JoinGroup of a follower, protocols unchanged"
    JOIN_LEADER = "JoinGroup of the leader, protocols unchanged"
    JOIN_CHANGED = "JoinGroup of a member, protocols changed"
    JOIN_NO_ROOM = "JoinGroup of a client for which group.max.size leaves no room"
    JOIN_UNSUPPORTED = "JoinGroup of another protocol type, or without a protocol that all members support"
    JOIN_PENDING_STATIC = "JoinGroup with an id handed out by error 79, and an instance id"
    JOIN_UNKNOWN = "JoinGroup with an id, or an instance id beside it, that the group does not have"
    JOIN_FENCED = "JoinGroup with an id, and the instance id of another member"
    JOIN_TAKE_OVER_OVERSIZED = "JoinGroup that takes a static member over, whose record is too large to store"
    SYNC_FOLLOWER = "SyncGroup of a follower"
    SYNC_LEADER = "SyncGroup of the leader"
    SYNC_OVERSIZED = "SyncGroup of the leader, with assignments too large to store"
    HEARTBEAT = "Heartbeat"
    LEAVE = "LeaveGroup with at least one member or pending id of the group"
    COMMIT = "OffsetCommit of a member"
    COMMIT_OUTSIDE = "OffsetCommit without a generation"
    TXN_COMMIT = "TxnOffsetCommit of a member"
    TXN_COMMIT_OUTSIDE = "TxnOffsetCommit of a member without a generation"
    TXN_COMMIT_NO_MEMBER = "TxnOffsetCommit without member fields, as before KIP-447"
    DELETE_OFFSETS = "OffsetDelete at a group of consumers"
    DELETE_OFFSETS_OTHER = "OffsetDelete at a group of another protocol type"
    DESCRIBE = "DescribeGroups"
    DELETE = "DeleteGroups"
    SESSION_TIMEOUT = "a member's session runs out"
    PENDING_TIMEOUT = "a pending id runs out"
    JOIN_TIMEOUT = "the join round's time is up"
    SYNC_TIMEOUT = "the time to sync is up"
    OVERSIZE = "loaded with more members than group.max.size"


class Rule(StrEnum):
    """Rules, by their names in the trace; `MEANING` describes each."""

    ADD = "add"
    ADD_IN_ROUND = "add-in-round"
    HAND_OUT_ID = "hand-out-id"
    TAKE_OVER = "take-over"
    TAKE_OVER_IN_ROUND = "take-over-in-round"
    TAKE_OVER_STABLE = "take-over-stable"
    REJOIN = "rejoin"
    REJOIN_IN_ROUND = "rejoin-in-round"
    CURRENT_GENERATION = "current-generation"
    TURN_AWAY = "turn-away"
    KEEP_OLD = "keep-old"
    PARK_SYNC = "park-sync"
    ASSIGN = "assign"
    REJECT_ASSIGNMENTS = "reject-assignments"
    STORED_ASSIGNMENT = "stored-assignment"
    ACCEPT = "accept"
    RENEW = "renew"
    RENEW_AND_CALL = "renew-and-call"
    LEAVE = "leave"
    LEAVE_IN_ROUND = "leave-in-round"
    FORGET_PENDING = "forget-pending"
    FORGET_PENDING_IN_ROUND = "forget-pending-in-round"
    EXPIRE = "expire"
    EXPIRE_IN_ROUND = "expire-in-round"
    END_ROUND = "end-round"
    EXPEL_UNSYNCED = "expel-unsynced"
    SHRINK = "shrink"
    SHOW = "show"
    SHOW_STABLE = "show-stable"
    SHOW_DEAD = "show-dead"
    DELETE = "delete"
    IGNORE = "ignore"
    REFUSE_UNKNOWN = "refuse-unknown"
    REFUSE_FENCED = "refuse-fenced"
    REFUSE_UNSUPPORTED = "refuse-unsupported"
    REFUSE_REBALANCING = "refuse-rebalancing"
    REFUSE_NOT_EMPTY = "refuse-not-empty"
    REFUSE_NOT_FOUND = "refuse-not-found"
    REFUSE_NOT_AVAILABLE = "refuse-not-available"
    REFUSE_IMPOSSIBLE = "refuse-impossible"


MEANING: Final[dict[Rule, str]] = {
    Rule.ADD: "Add the member, park its request, start a rebalance.",
    Rule.ADD_IN_ROUND: "Add the member, park its request; the round ends if all joined and it is not the initial one.",
    Rule.HAND_OUT_ID: "Answer MEMBER_ID_REQUIRED (79) with a new id and wait for it for the session timeout.",
    Rule.TAKE_OVER: "Give the static member a new id, fence the old one (82), park the request, start a rebalance.",
    Rule.TAKE_OVER_IN_ROUND: "Give the static member a new id, fence the old one (82), park the request.",
    Rule.TAKE_OVER_STABLE: (
        "Give the static member a new id, fence the old one (82); answer with the current generation, unless the"
        " protocol to select changes: then park the request and start a rebalance."
    ),
    Rule.REJOIN: "Update the member, park its request, start a rebalance.",
    Rule.REJOIN_IN_ROUND: "Update the member, park its request, answering an earlier parked one with 27.",
    Rule.CURRENT_GENERATION: "Answer with the current generation; the leader also gets the members.",
    Rule.TURN_AWAY: "Answer GROUP_MAX_SIZE_REACHED (81); a member is removed.",
    Rule.KEEP_OLD: "Answer UNKNOWN_SERVER_ERROR (-1); the static member stays unchanged.",
    Rule.PARK_SYNC: "Park the request until the leader's arrives.",
    Rule.ASSIGN: "Store the leader's assignments, answer every parked sync; the group is Stable.",
    Rule.REJECT_ASSIGNMENTS: "Answer every sync with UNKNOWN_SERVER_ERROR (-1), start a rebalance.",
    Rule.STORED_ASSIGNMENT: "Answer with the member's stored assignment.",
    Rule.ACCEPT: "Accept.",
    Rule.RENEW: "Renew the session, accept.",
    Rule.RENEW_AND_CALL: "Renew the session, answer REBALANCE_IN_PROGRESS (27).",
    Rule.LEAVE: "Remove the leavers, start a rebalance.",
    Rule.LEAVE_IN_ROUND: "Remove the leavers; the round ends if all others joined and it is not the initial one.",
    Rule.FORGET_PENDING: "Forget the pending id.",
    Rule.FORGET_PENDING_IN_ROUND: "Forget the pending id; the round ends if all members have joined.",
    Rule.EXPIRE: "Remove the member, start a rebalance.",
    Rule.EXPIRE_IN_ROUND: "Remove the member, answering its parked join with 25; the round ends if all others joined.",
    Rule.END_ROUND: "Drop dynamic members that did not rejoin and start the next generation.",
    Rule.EXPEL_UNSYNCED: "Remove the members that have not synced, start a rebalance.",
    Rule.SHRINK: "Start a rebalance that refuses the last members to join.",
    Rule.SHOW: "Show the members without metadata and protocol.",
    Rule.SHOW_STABLE: "Show the members with metadata, and the protocol.",
    Rule.SHOW_DEAD: "Show a Dead group without members.",
    Rule.DELETE: "Delete the offsets and the group.",
    Rule.IGNORE: "Do nothing.",
    Rule.REFUSE_UNKNOWN: "UNKNOWN_MEMBER_ID (25).",
    Rule.REFUSE_FENCED: "FENCED_INSTANCE_ID (82).",
    Rule.REFUSE_UNSUPPORTED: "INCONSISTENT_GROUP_PROTOCOL (23).",
    Rule.REFUSE_REBALANCING: "REBALANCE_IN_PROGRESS (27).",
    Rule.REFUSE_NOT_EMPTY: "NON_EMPTY_GROUP (68).",
    Rule.REFUSE_NOT_FOUND: "GROUP_ID_NOT_FOUND (69).",
    Rule.REFUSE_NOT_AVAILABLE: "COORDINATOR_NOT_AVAILABLE (15).",
    Rule.REFUSE_IMPOSSIBLE: "UNKNOWN_SERVER_ERROR (-1): no group reaches this case.",
}


def _row(empty: Rule, preparing: Rule, completing: Rule, stable: Rule, dead: Rule) -> dict[State, Rule]:
    return dict(zip(State, (empty, preparing, completing, stable, dead), strict=True))


def _always(rule: Rule) -> dict[State, Rule]:
    """Return a row with the same rule in every state but Dead."""
    return dict.fromkeys(State, rule) | {State.DEAD: Rule.REFUSE_NOT_AVAILABLE}


_R = Rule
RULES: Final[dict[Trigger, dict[State, Rule]]] = {
    Trigger.JOIN_NEW: _row(_R.ADD, _R.ADD_IN_ROUND, _R.ADD, _R.ADD, _R.REFUSE_NOT_AVAILABLE),
    Trigger.JOIN_NEW_ID_REQUIRED: _row(
        _R.HAND_OUT_ID, _R.HAND_OUT_ID, _R.HAND_OUT_ID, _R.HAND_OUT_ID, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.JOIN_NEW_STATIC: _row(_R.ADD, _R.ADD_IN_ROUND, _R.ADD, _R.ADD, _R.REFUSE_NOT_AVAILABLE),
    Trigger.JOIN_TAKE_OVER: _row(
        _R.REFUSE_IMPOSSIBLE, _R.TAKE_OVER_IN_ROUND, _R.TAKE_OVER, _R.TAKE_OVER_STABLE, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.JOIN_PENDING: _row(_R.ADD, _R.ADD_IN_ROUND, _R.ADD, _R.ADD, _R.REFUSE_NOT_AVAILABLE),
    Trigger.JOIN_SAME: _row(
        _R.REFUSE_UNKNOWN, _R.REJOIN_IN_ROUND, _R.CURRENT_GENERATION, _R.CURRENT_GENERATION, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.JOIN_LEADER: _row(
        _R.REFUSE_UNKNOWN, _R.REJOIN_IN_ROUND, _R.CURRENT_GENERATION, _R.REJOIN, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.JOIN_CHANGED: _row(_R.REFUSE_UNKNOWN, _R.REJOIN_IN_ROUND, _R.REJOIN, _R.REJOIN, _R.REFUSE_NOT_AVAILABLE),
    Trigger.JOIN_NO_ROOM: _row(_R.REFUSE_IMPOSSIBLE, _R.TURN_AWAY, _R.TURN_AWAY, _R.TURN_AWAY, _R.REFUSE_NOT_AVAILABLE),
    Trigger.JOIN_UNSUPPORTED: _always(_R.REFUSE_UNSUPPORTED),
    Trigger.JOIN_PENDING_STATIC: _always(_R.REFUSE_IMPOSSIBLE),
    Trigger.JOIN_UNKNOWN: _always(_R.REFUSE_UNKNOWN),
    Trigger.JOIN_FENCED: _always(_R.REFUSE_FENCED),
    Trigger.JOIN_TAKE_OVER_OVERSIZED: _row(
        _R.REFUSE_IMPOSSIBLE, _R.TAKE_OVER_IN_ROUND, _R.TAKE_OVER, _R.KEEP_OLD, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.SYNC_FOLLOWER: _row(
        _R.REFUSE_UNKNOWN, _R.REFUSE_REBALANCING, _R.PARK_SYNC, _R.STORED_ASSIGNMENT, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.SYNC_LEADER: _row(
        _R.REFUSE_UNKNOWN, _R.REFUSE_REBALANCING, _R.ASSIGN, _R.STORED_ASSIGNMENT, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.SYNC_OVERSIZED: _row(
        _R.REFUSE_UNKNOWN, _R.REFUSE_REBALANCING, _R.REJECT_ASSIGNMENTS, _R.STORED_ASSIGNMENT, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.HEARTBEAT: _row(_R.REFUSE_UNKNOWN, _R.RENEW_AND_CALL, _R.RENEW, _R.RENEW, _R.REFUSE_NOT_AVAILABLE),
    Trigger.LEAVE: _row(_R.FORGET_PENDING, _R.LEAVE_IN_ROUND, _R.LEAVE, _R.LEAVE, _R.REFUSE_NOT_AVAILABLE),
    Trigger.COMMIT: _row(_R.REFUSE_UNKNOWN, _R.RENEW, _R.REFUSE_REBALANCING, _R.RENEW, _R.REFUSE_NOT_AVAILABLE),
    Trigger.COMMIT_OUTSIDE: _row(
        _R.ACCEPT, _R.REFUSE_UNKNOWN, _R.REFUSE_UNKNOWN, _R.REFUSE_UNKNOWN, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.TXN_COMMIT: _row(_R.REFUSE_UNKNOWN, _R.ACCEPT, _R.ACCEPT, _R.ACCEPT, _R.REFUSE_NOT_AVAILABLE),
    Trigger.TXN_COMMIT_OUTSIDE: _row(
        _R.ACCEPT, _R.REFUSE_UNKNOWN, _R.REFUSE_UNKNOWN, _R.REFUSE_UNKNOWN, _R.REFUSE_NOT_AVAILABLE
    ),
    Trigger.TXN_COMMIT_NO_MEMBER: _always(_R.ACCEPT),
    Trigger.DELETE_OFFSETS: _row(_R.ACCEPT, _R.ACCEPT, _R.ACCEPT, _R.ACCEPT, _R.REFUSE_NOT_FOUND),
    Trigger.DELETE_OFFSETS_OTHER: _row(
        _R.ACCEPT, _R.REFUSE_NOT_EMPTY, _R.REFUSE_NOT_EMPTY, _R.REFUSE_NOT_EMPTY, _R.REFUSE_NOT_FOUND
    ),
    Trigger.DESCRIBE: _row(_R.SHOW, _R.SHOW, _R.SHOW, _R.SHOW_STABLE, _R.SHOW_DEAD),
    Trigger.DELETE: _row(_R.DELETE, _R.REFUSE_NOT_EMPTY, _R.REFUSE_NOT_EMPTY, _R.REFUSE_NOT_EMPTY, _R.REFUSE_NOT_FOUND),
    Trigger.SESSION_TIMEOUT: _row(_R.IGNORE, _R.EXPIRE_IN_ROUND, _R.EXPIRE, _R.EXPIRE, _R.IGNORE),
    Trigger.PENDING_TIMEOUT: _row(
        _R.FORGET_PENDING, _R.FORGET_PENDING_IN_ROUND, _R.FORGET_PENDING, _R.FORGET_PENDING, _R.IGNORE
    ),
    Trigger.JOIN_TIMEOUT: _row(_R.IGNORE, _R.END_ROUND, _R.IGNORE, _R.IGNORE, _R.IGNORE),
    Trigger.SYNC_TIMEOUT: _row(_R.IGNORE, _R.IGNORE, _R.EXPEL_UNSYNCED, _R.EXPEL_UNSYNCED, _R.IGNORE),
    Trigger.OVERSIZE: _row(_R.IGNORE, _R.IGNORE, _R.IGNORE, _R.SHRINK, _R.IGNORE),
}
"""Rule for each trigger and state."""

ERRORS: Final[dict[Rule, ErrorCode]] = dict.fromkeys(Rule, ErrorCode.NONE) | {
    Rule.HAND_OUT_ID: ErrorCode.MEMBER_ID_REQUIRED,
    Rule.TURN_AWAY: ErrorCode.GROUP_MAX_SIZE_REACHED,
    Rule.KEEP_OLD: ErrorCode.UNKNOWN_SERVER_ERROR,
    Rule.REJECT_ASSIGNMENTS: ErrorCode.UNKNOWN_SERVER_ERROR,
    Rule.RENEW_AND_CALL: ErrorCode.REBALANCE_IN_PROGRESS,
    Rule.SHOW_DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
    Rule.REFUSE_UNKNOWN: ErrorCode.UNKNOWN_MEMBER_ID,
    Rule.REFUSE_FENCED: ErrorCode.FENCED_INSTANCE_ID,
    Rule.REFUSE_UNSUPPORTED: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    Rule.REFUSE_REBALANCING: ErrorCode.REBALANCE_IN_PROGRESS,
    Rule.REFUSE_NOT_EMPTY: ErrorCode.NON_EMPTY_GROUP,
    Rule.REFUSE_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    Rule.REFUSE_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Rule.REFUSE_IMPOSSIBLE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error code of each rule, NONE for those that accept."""


class Counted(StrEnum):
    """Quantity that group.max.size limits."""

    NOTHING = "nothing"
    PARKED_JOINS = "parked JoinGroups"
    MEMBERS = "members"


COUNTED: Final[dict[State, Counted]] = {
    _E: Counted.NOTHING,
    # A group above a lowered limit keeps the members that come back first.
    _P: Counted.PARKED_JOINS,
    _C: Counted.MEMBERS,
    _S: Counted.MEMBERS,
    _D: Counted.NOTHING,
}
"""Quantity limited in each state. A member that is counted already has room."""

GUARDS: Final[tuple[tuple[str, str, str], ...]] = (
    ("`service.py`", "a partition that is loading (14; Heartbeat: 0) or not here (16)", "every request"),
    ("`service.py`", "an empty group id (24)", "requests of members, OffsetDelete, TxnOffsetCommit"),
    ("`join.check_request`", "a session timeout out of bounds (26)", "JoinGroup"),
    (
        "`ClassicGroup.check_member`",
        "a member id, or an instance id beside it, that the group does not have (25); an instance id of another member"
        " (82)",
        "SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, TxnOffsetCommit",
    ),
    ("the rules themselves", "another generation (22)", "SyncGroup, Heartbeat, OffsetCommit, TxnOffsetCommit"),
    ("`sync.check_protocol`", "another protocol type or name (23)", "SyncGroup"),
    ("`ClassicGroup.has_room`", "see the table below", "JoinGroup; decides which row of the table it is"),
    ("`ClassicGroup.supports`", "the protocols of all members", "JoinGroup; decides which row of the table it is"),
    ("`Shard.has_room_for`", "`max.message.bytes`", "JoinGroup, SyncGroup; decides which row of the table it is"),
)
"""Checks that apply in any state: place, refusal, requests. In a Dead group the table comes first."""
