"""`Sign`: the meaning of one line of a log, and the closed list of the names of signs.

The tables of programs (`old_broker.py`, `new_broker.py` and those of clients) give signs; stories are made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from kafka_shim.sources.layouts import Line


class SignName(StrEnum):
    """Names of signs. Fields beside group and member are in brackets."""

    # Rounds of classic groups
    PREPARING = "PREPARING"
    """A rebalance began [old, cause: the broker's words]."""
    STABILIZED = "STABILIZED"
    """The requests to join were answered: the next generation [generation, members]."""
    ASSIGNED = "ASSIGNED"
    """The leader handed in the assignments [generation, leader, members]; member is the leader."""
    EMPTY = "EMPTY"
    """The last member is gone [generation]."""
    DEAD = "DEAD"
    """The group is gone, or was deleted."""
    NOBODY_REJOINED = "NOBODY_REJOINED"
    """A round ended without a member; the next one begins."""
    LEADER_ELECTED = "LEADER_ELECTED"
    """The old leader did not rejoin, another is elected [leader]; it has no group."""

    # Members
    ID_GIVEN = "ID_GIVEN"
    """A new client received its member id and has to join with it, KIP-394 [state]."""
    JOINED = "JOINED"
    """A member joined [state, instance, kind: of the group, protocol]."""
    STATIC_JOINED = "STATIC_JOINED"
    """A static member joined whose instance id had no member [instance, state]."""
    STATIC_REPLACED = "STATIC_REPLACED"
    """A static member was replaced [instance, state, new: id of the new member]; member is the old id."""
    STATIC_UNCHANGED = "STATIC_UNCHANGED"
    """The replacement just said began no rebalance; it has neither group nor member."""
    FENCED = "FENCED"
    """A request of a static member was refused: its instance id has a newer member [instance, new, operation]."""
    INSTANCE_OWNED = "INSTANCE_OWNED"
    """A static member may not join: another has its instance id [instance, owner]."""
    EXPIRED = "EXPIRED"
    """A member sent no heartbeat within its session timeout."""
    PENDING_EXPIRED = "PENDING_EXPIRED"
    """A client that had received a member id never joined with it; no rebalance."""
    LEFT = "LEFT"
    """A member left [instance, reason, away: for a while, client_id, client_host, session_ms, rebalance_ms]."""
    PENDING_LEFT = "PENDING_LEFT"
    """A client left that had only received a member id; no rebalance."""
    NOT_REJOINED = "NOT_REJOINED"
    """Members did not join within the rebalance timeout [members: a list]."""
    NOT_SYNCED = "NOT_SYNCED"
    """Members sent no SyncGroup in time [members: a list]."""
    MEMBER_LOADED = "MEMBER_LOADED"
    """A member of a loaded group [instance, client_id, client_host, session_ms, rebalance_ms, generation]."""
    NO_PARTITIONS = "NO_PARTITIONS"
    """Members received an empty assignment [generation]."""
    UNEXPECTED_REJOIN = "UNEXPECTED_REJOIN"
    """A member joined with an id of before, while the group was in no state to accept it [state]."""

    # Consumer groups (KIP-848)
    EPOCH = "EPOCH"
    """A group epoch began, a rebalance [generation, hash: of the metadata of its topics]."""
    TARGET = "TARGET"
    """The target assignment was computed [generation, assignor, took_ms]."""
    TARGET_FAILED = "TARGET_FAILED"
    """The target assignment could not be computed [generation, error]."""
    NOT_REVOKED = "NOT_REVOKED"
    """A member did not give up its partitions within its rebalance timeout [generation, rebalance_ms]."""
    SUBSCRIBED = "SUBSCRIBED"
    """A member changed its subscription."""
    TOPICS_CHANGED = "TOPICS_CHANGED"
    """The metadata of the subscribed topics is another."""
    REGEX_SCANNED = "REGEX_SCANNED"
    """The coordinator looked for the topics of regular expressions [topics: their number]."""
    CONVERTED = "CONVERTED"
    """The group became one of another kind [old, kind]."""

    # Coordinators
    LOADED = "LOADED"
    """A broker loaded the group: it coordinates the group from now on [generation, members]."""
    UNLOADED = "UNLOADED"
    """A broker no longer coordinates the group [generation]."""
    ELECTED = "ELECTED"
    """A broker became coordinator of a partition of `__consumer_offsets` [partition]; it has no group."""
    RESIGNED = "RESIGNED"
    """A broker is no longer coordinator of a partition [partition]; it has no group."""
    WRITE_FAILED = "WRITE_FAILED"
    """A record of the group could not be written [error]."""
    GROUPS_DELETED = "GROUPS_DELETED"
    """Groups were deleted [groups: a list]; it has no group."""
    TOPIC_CREATED = "TOPIC_CREATED"
    """A broker created the log of a partition [topic, partition]; it has no group."""
    # Clients. A line that names no group or member is about its own
    VERSION = "VERSION"
    """A program of this release started [version]; it has no group."""
    SETTING = "SETTING"
    """A setting of the next client that starts [name, value]; it has no group."""
    ASKS_TO_JOIN = "ASKS_TO_JOIN"
    """It sends a JoinGroup."""
    ASKS_AGAIN = "ASKS_AGAIN"
    """It has to join again [reason]."""
    ID_RECEIVED = "ID_RECEIVED"
    """It received its member id and has to join with it, KIP-394."""
    IN_GENERATION = "IN_GENERATION"
    """It is a member of this generation [generation, protocol, leader]."""
    SYNCED = "SYNCED"
    """It has its assignment of this generation [generation]."""
    LEADS = "LEADS"
    """It assigned the partitions of all members [generation, assignments]."""
    FOLLOWS = "FOLLOWS"
    """It learned that the group rebalances: it is not the cause."""
    METADATA_CHANGED = "METADATA_CHANGED"
    """The topics of its subscription changed, and it joins again [before, after]."""
    SUBSCRIPTION_CHANGED = "SUBSCRIPTION_CHANGED"
    """Its application subscribed to other topics [before, after]."""
    REVOKED_AND_JOINS = "REVOKED_AND_JOINS"
    """It revoked partitions and joins again, the second half of a cooperative rebalance [partitions]."""
    REBALANCES = "REBALANCES"
    """It gives up its partitions [partitions: their number, lost, reason]."""
    POLL_EXPIRED = "POLL_EXPIRED"
    """Its application did not poll in time [interval_ms, excess_ms]."""
    POLLS_AGAIN = "POLLS_AGAIN"
    """Its application polls again after that [excess_ms]."""
    SESSION_LOST = "SESSION_LOST"
    """It had no answer of the coordinator for a session timeout, by its own clock [silent_ms, error]."""
    THROWN_OUT = "THROWN_OUT"
    """The coordinator no longer has it as a member of its generation or epoch [error, request, generation, epoch]."""
    REPLACED = "REPLACED"
    """Another process has its group instance id [fenced or unreleased: the instance id, error]."""
    REFUSED = "REFUSED"
    """The coordinator refused to let it join [error]."""
    LEAVES = "LEAVES"
    """It leaves [reason]."""
    COMMIT_FAILED = "COMMIT_FAILED"
    """A commit was refused [error, partition, offset]."""
    PARTITIONS_TAKEN = "PARTITIONS_TAKEN"
    """It received partitions [partitions]."""
    PARTITIONS_REVOKED = "PARTITIONS_REVOKED"
    """It gave up partitions [partitions]."""
    PARTITIONS_LOST = "PARTITIONS_LOST"
    """It lost partitions that other members have already [partitions]."""
    COORDINATOR_FOUND = "COORDINATOR_FOUND"
    """It found its coordinator [coordinator, host]."""
    COORDINATOR_LOST = "COORDINATOR_LOST"
    """Its coordinator does not answer, or coordinates the group no more [error]."""
    TRANSITION = "TRANSITION"
    """A consumer of KIP-848 changed its state [before, after, epoch]."""

    NOTHING = "NOTHING"
    """A known line that is of no use to a story."""
    UNKNOWN = "UNKNOWN"
    """A line about groups that no pattern knows, or that has no time."""


class Sign(NamedTuple):
    """The meaning of a line. `group` and `member` are empty if it names none; `fields` are its other parts by name."""

    name: SignName
    line: Line
    group: str = ""
    member: str = ""
    fields: Mapping[str, str] = {}

    @property
    def where(self) -> str:
        """Return the file and the number of the line, `server.log:4711`."""
        return self.line.where

    @property
    def time(self) -> int | None:
        """Return the time of the line in milliseconds since 1970, None if it has none."""
        return self.line.time
