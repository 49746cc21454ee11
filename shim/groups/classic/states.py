"""The classic group's state machine as data: which states there are, and which rule answers what in which state.

Everything that decides *which* rule applies is in the two tables here, `TRANSITIONS` and `RULES`; *how* a rule works is
in the module named after its mechanism. This module does not know members, timers or requests' fields.

How to read it. A request that is well-formed and comes from somebody the group knows is one of the `Request` kinds;
requests refused before that (an empty group id, an unknown member, a wrong generation) never get here, see semantics
2.2 and 2.3. `RULES[request][state]` is the rule that answers it. A rule that says "rebalance" moves the group to
PreparingRebalance with a cause; a rule that says "round" works within the join round that is already under way.

    Empty --join--> PreparingRebalance --all joined, or time is up--> CompletingRebalance --leader synced--> Stable
      ^                |          ^                                     |                                   |
      +--nobody left---+          +------------- a rebalance -----------+-----------------------------------+

Every (request, state) pair is present; tests walk them all, and `docs/states.md` is generated from these tables.
Source: semantics 2.1 and 2.3.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


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
"""From a state, the states a group may go to."""


class Request(StrEnum):
    """What can happen to a group, as far as the answer depends on it."""

    JOIN_NEW = "JoinGroup without an id, dynamic, before v4"
    JOIN_NEW_ID_REQUIRED = "JoinGroup without an id, dynamic, v4 and later"
    JOIN_NEW_STATIC = "JoinGroup without an id, with an instance id the group does not have"
    JOIN_TAKE_OVER = "JoinGroup without an id, with an instance id the group has"
    JOIN_PENDING = "JoinGroup with an id handed out by error 79"
    JOIN_SAME = "JoinGroup of a follower, protocols unchanged"
    JOIN_LEADER = "JoinGroup of the leader, protocols unchanged"
    JOIN_CHANGED = "JoinGroup of a member, protocols changed"
    JOIN_NO_ROOM = "JoinGroup of somebody for whom group.max.size leaves no room"
    SYNC_FOLLOWER = "SyncGroup of a follower"
    SYNC_LEADER = "SyncGroup of the leader"
    HEARTBEAT = "Heartbeat"
    LEAVE = "LeaveGroup with at least one member or pending id of the group"
    COMMIT = "OffsetCommit of a member"
    DESCRIBE = "DescribeGroups"
    DELETE = "DeleteGroups"
    SESSION_TIMEOUT = "a member's session runs out"
    PENDING_TIMEOUT = "a pending id runs out"
    JOIN_TIMEOUT = "the join round's time is up"
    SYNC_TIMEOUT = "the time to sync is up"
    OVERSIZE = "loaded with more members than group.max.size"


class Rule(StrEnum):
    """The rules, by the names the trace uses; the texts of `MEANING` say what each does."""

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
    PARK_SYNC = "park-sync"
    ASSIGN = "assign"
    STORED_ASSIGNMENT = "stored-assignment"
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
    Rule.TURN_AWAY: "Answer GROUP_MAX_SIZE_REACHED (81); if it was a member, it is one no more.",
    Rule.PARK_SYNC: "Park the request until the leader's arrives.",
    Rule.ASSIGN: "Store the leader's assignments, answer every parked sync; the group is Stable.",
    Rule.STORED_ASSIGNMENT: "Answer with the member's stored assignment.",
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
    Rule.SHRINK: "Start a rebalance, in which those who come last are refused.",
    Rule.SHOW: "Show the members without metadata and protocol.",
    Rule.SHOW_STABLE: "Show the members with metadata, and the protocol.",
    Rule.SHOW_DEAD: "Show a Dead group without members.",
    Rule.DELETE: "Delete the offsets and the group.",
    Rule.IGNORE: "Do nothing.",
    Rule.REFUSE_UNKNOWN: "UNKNOWN_MEMBER_ID (25).",
    Rule.REFUSE_REBALANCING: "REBALANCE_IN_PROGRESS (27).",
    Rule.REFUSE_NOT_EMPTY: "NON_EMPTY_GROUP (68).",
    Rule.REFUSE_NOT_FOUND: "GROUP_ID_NOT_FOUND (69).",
    Rule.REFUSE_NOT_AVAILABLE: "COORDINATOR_NOT_AVAILABLE (15).",
    Rule.REFUSE_IMPOSSIBLE: "UNKNOWN_SERVER_ERROR (-1): no group gets here.",
}


def _row(empty: Rule, preparing: Rule, completing: Rule, stable: Rule, dead: Rule) -> dict[State, Rule]:
    return dict(zip(State, (empty, preparing, completing, stable, dead), strict=True))


_R = Rule
RULES: Final[dict[Request, dict[State, Rule]]] = {
    Request.JOIN_NEW: _row(_R.ADD, _R.ADD_IN_ROUND, _R.ADD, _R.ADD, _R.REFUSE_NOT_AVAILABLE),
    Request.JOIN_NEW_ID_REQUIRED: _row(
        _R.HAND_OUT_ID, _R.HAND_OUT_ID, _R.HAND_OUT_ID, _R.HAND_OUT_ID, _R.REFUSE_NOT_AVAILABLE
    ),
    Request.JOIN_NEW_STATIC: _row(_R.ADD, _R.ADD_IN_ROUND, _R.ADD, _R.ADD, _R.REFUSE_NOT_AVAILABLE),
    Request.JOIN_TAKE_OVER: _row(
        _R.REFUSE_IMPOSSIBLE, _R.TAKE_OVER_IN_ROUND, _R.TAKE_OVER, _R.TAKE_OVER_STABLE, _R.REFUSE_NOT_AVAILABLE
    ),
    Request.JOIN_PENDING: _row(_R.ADD, _R.ADD_IN_ROUND, _R.ADD, _R.ADD, _R.REFUSE_NOT_AVAILABLE),
    Request.JOIN_SAME: _row(
        _R.REFUSE_UNKNOWN, _R.REJOIN_IN_ROUND, _R.CURRENT_GENERATION, _R.CURRENT_GENERATION, _R.REFUSE_NOT_AVAILABLE
    ),
    Request.JOIN_LEADER: _row(
        _R.REFUSE_UNKNOWN, _R.REJOIN_IN_ROUND, _R.CURRENT_GENERATION, _R.REJOIN, _R.REFUSE_NOT_AVAILABLE
    ),
    Request.JOIN_CHANGED: _row(_R.REFUSE_UNKNOWN, _R.REJOIN_IN_ROUND, _R.REJOIN, _R.REJOIN, _R.REFUSE_NOT_AVAILABLE),
    Request.JOIN_NO_ROOM: _row(_R.REFUSE_IMPOSSIBLE, _R.TURN_AWAY, _R.TURN_AWAY, _R.TURN_AWAY, _R.REFUSE_NOT_AVAILABLE),
    Request.SYNC_FOLLOWER: _row(
        _R.REFUSE_UNKNOWN, _R.REFUSE_REBALANCING, _R.PARK_SYNC, _R.STORED_ASSIGNMENT, _R.REFUSE_NOT_AVAILABLE
    ),
    Request.SYNC_LEADER: _row(
        _R.REFUSE_UNKNOWN, _R.REFUSE_REBALANCING, _R.ASSIGN, _R.STORED_ASSIGNMENT, _R.REFUSE_NOT_AVAILABLE
    ),
    Request.HEARTBEAT: _row(_R.REFUSE_UNKNOWN, _R.RENEW_AND_CALL, _R.RENEW, _R.RENEW, _R.REFUSE_NOT_AVAILABLE),
    Request.LEAVE: _row(_R.FORGET_PENDING, _R.LEAVE_IN_ROUND, _R.LEAVE, _R.LEAVE, _R.REFUSE_NOT_AVAILABLE),
    Request.COMMIT: _row(_R.REFUSE_UNKNOWN, _R.RENEW, _R.REFUSE_REBALANCING, _R.RENEW, _R.REFUSE_NOT_AVAILABLE),
    Request.DESCRIBE: _row(_R.SHOW, _R.SHOW, _R.SHOW, _R.SHOW_STABLE, _R.SHOW_DEAD),
    Request.DELETE: _row(_R.DELETE, _R.REFUSE_NOT_EMPTY, _R.REFUSE_NOT_EMPTY, _R.REFUSE_NOT_EMPTY, _R.REFUSE_NOT_FOUND),
    Request.SESSION_TIMEOUT: _row(_R.IGNORE, _R.EXPIRE_IN_ROUND, _R.EXPIRE, _R.EXPIRE, _R.IGNORE),
    Request.PENDING_TIMEOUT: _row(
        _R.FORGET_PENDING, _R.FORGET_PENDING_IN_ROUND, _R.FORGET_PENDING, _R.FORGET_PENDING, _R.IGNORE
    ),
    Request.JOIN_TIMEOUT: _row(_R.IGNORE, _R.END_ROUND, _R.IGNORE, _R.IGNORE, _R.IGNORE),
    Request.SYNC_TIMEOUT: _row(_R.IGNORE, _R.IGNORE, _R.EXPEL_UNSYNCED, _R.EXPEL_UNSYNCED, _R.IGNORE),
    Request.OVERSIZE: _row(_R.IGNORE, _R.IGNORE, _R.IGNORE, _R.SHRINK, _R.IGNORE),
}
"""For a request and the state it finds the group in, the rule that answers it."""
