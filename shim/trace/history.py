"""`History`: groups, members and rebalances, collected from the events of a trace.

It takes events in order, from a file or as they happen; the schema is `docs/trace.md`. `members.py` has the facts of
one member, `rebalance.py` the phases of one rebalance. All times are seconds of Unix time, so that traces of several
brokers can be merged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import Library, library_of, library_of_consumer, refined
from kafka_shim.trace.completeness import Missing
from kafka_shim.trace.epochs import Epochs
from kafka_shim.trace.members import Commit, Member
from kafka_shim.trace.moves import Partition, compare, owners_of
from kafka_shim.trace.rebalance import OF_TOPIC, Rebalance
from kafka_shim.trace.reconciliation import AWAY
from kafka_shim.trace.refusals import JOINS, Refusals
from kafka_shim.trace.unreleased import Holders

REBALANCES: Final = 10_000
"""Largest number of rebalances of a group; the oldest are dropped first, and counted."""
SILENT: Final = 1.5
"""A consumer without a heartbeat for so many intervals is silent."""
_JOINED: Final = frozenset({"added", "replaced"})
_GONE: Final = frozenset({"left", "expired", "removed", "fenced", "gone"})
_RESTART_S: Final = 2.0
"""No process restarts twice in so short a time: two that run replace each other."""
_LOST: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""Errors of a commit after which other members read its records again."""
_OF_REBALANCES: Final = frozenset({"state", "round", "assignment", "epoch", "target"})
"""Events about a rebalance, not about one member."""
MISSED_POLL: Final = "poll timeout"
"""The reason, or a part of it, of a member that left because its application did not poll in time."""
ENDED_BY_TEST: Final = "ended by a test"
"""The `how` of a member whose session a test ended."""
BY_REQUESTS: Final = "by its requests"
"""The end of such a reason that the member did not give."""


class GroupHistory:
    """One group: its rebalances, oldest first, its members, and the owners."""

    def __init__(self, group: str) -> None:
        self.group: str = group
        self.state = ""
        self.generation: int | None = None
        self.protocol = ""
        self.protocol_type = ""
        """That of the newest accepted JoinGroup: consumer, connect, or another; empty if none was seen."""
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES)
        self.members: dict[str, Member] = {}
        self.present: dict[str, None] = {}
        """Ids of its present members."""
        self.owners: dict[Partition, str] = {}
        """The present owners; of an Empty classic group the last ones: their partitions stand still."""
        self.revoked: dict[Partition, tuple[str, float]] = {}
        """Partitions without an owner: the last owner of each, and the time of its revocation."""
        self.first = self.last = 0.0
        self.current: Rebalance | None = None
        """The newest rebalance."""
        self.epochs: Epochs | None = None
        """The state of a group with epochs (KIP-848); None for a classic group."""
        self.heartbeat_interval_ms: int | None = None
        """The newest heartbeat interval in answers to a consumer group; None if no such answer was seen."""
        self.sessions: dict[str, float] = {}
        """Session timeout of each member in seconds, by its id, if the trace has timers."""
        self.refusals = Refusals()
        self.holders = Holders()
        self.is_of_log = False
        """True if its events are from a log or from `__consumer_offsets`: it may have had members before."""
        self.is_of_topic = self.is_of_lines = False
        """True if some of these are from `__consumer_offsets`, from lines of logs."""
        self.of_clients = False
        """True if all its events are from logs of clients."""
        self.limits: tuple[str, ...] = ()
        """Questions that its logs leave open, as far as they are known when they are read."""
        self.missing = Missing()
        """Parts of its traces that are not there, as far as reading has shown."""
        self.broker_limits: Mapping[str, int] = {}
        """The bounds of group sizes and session timeouts, by setting; empty if the trace does not show them."""
        self.broker_versions: tuple[str, ...] = ()
        """Versions of the brokers that coordinated it, as far as their logs have them."""
        self.was_loaded = False
        """True if a coordinator loaded the group, after it moved or restarted."""
        self.size: int | None = None
        """Number of present members, if a log has it."""
        self.ended_by_test: set[str] = set()
        """Ids of members with a session that a test ended, until they join again."""
        self.joined_on: dict[int, str] = {}
        """By connection, the member of its newest JoinGroup."""
        self._generation_members: tuple[str, ...] = ()
        self._offsets: dict[Partition, int] = {}
        self._reasons: dict[str, str] = {}
        self._replaced: dict[str, float] = {}
        """In a log, the time at which the member of a group instance id was last replaced."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Handle the next event of this group."""
        if event["event"] == "timer":
            self._timer(event)
            return
        at = float(event["wall"])
        self.first = self.first or at
        self.last = at
        self.is_of_log = self.is_of_log or "where" in event
        if "where" in event:
            is_record = event["where"].startswith(OF_TOPIC)
            self.is_of_topic, self.is_of_lines = self.is_of_topic or is_record, self.is_of_lines or not is_record
        take = getattr(self, f"_{event['event']}", None)
        if take is not None:
            take(event, at, at - float(event["mono"]))
        if self.current is not None and not _is_routine(event):
            self.current.last_seq = event.get("seq", 0)
            if "where" in event and event["event"] in _OF_REBALANCES:
                self.current.lines = (*self.current.lines[:1], event["where"])

    def member(self, member_id: str) -> Member:
        """Return the member with this id; create it if it is new."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Member(member_id)
        return member

    @property
    def is_of_topic_alone(self) -> bool:
        """True if no line of a log stands beside the records of `__consumer_offsets`."""
        return self.is_of_topic and not self.is_of_lines

    @property
    def lacks_assignments(self) -> bool:
        """True if its events are from logs alone."""
        return self.is_of_log and not self.is_of_topic

    @property
    def kind(self) -> str:
        """The kind of group, as far as the trace shows it."""
        return "classic" if self.epochs is None else self.epochs.kind

    def is_silent(self, member_id: str) -> bool:
        """True if the trace has heartbeats of a consumer, and the next one is overdue."""
        member, interval = self.members.get(member_id), self.heartbeat_interval_ms
        if member is None or member.ended is not None or member.beaten is None or interval is None:
            return False
        return self.last - member.beaten > SILENT * interval / 1000

    def has_died(self, member_id: str) -> bool:
        """True if the session of a member ended, and it had not left for a while."""
        member = self.members.get(member_id)
        return member is not None and member.how == "expired" and member.away is None

    def is_by_test(self, rebalance: Rebalance) -> bool:
        """True if the end of a session began it, and a test ended that session."""
        return rebalance.cause == Cause.SESSION_EXPIRED and rebalance.trigger in self.ended_by_test

    # Rebalances

    def begin(self, rebalance: Rebalance) -> None:
        """Add a rebalance and make it the current one."""
        self.current = rebalance
        self.missing.oldest += len(self.rebalances) == self.rebalances.maxlen
        self.rebalances.append(rebalance)

    def _begin(self, event: Mapping[str, Any], started: float, *, initial: bool) -> Rebalance:
        before = self.current
        if before is not None and before.assigned is None:
            before.superseded = started
        rebalance = Rebalance(
            group=self.group,
            cause=event["cause"] or "",
            trigger=event["trigger"],
            started=started,
            wall=started,
            first_seq=event.get("seq", 0),
            last_seq=event.get("seq", 0),
            initial=initial,
            inferred=bool(event.get("inferred")),
            generation_before=self.generation,
            lines=(event["where"],) if "where" in event else (),
        )
        trigger = self.members.get(rebalance.trigger)
        rebalance.by_test = self.is_by_test(rebalance)
        if rebalance.cause == Cause.SESSION_EXPIRED and trigger is not None and not rebalance.by_test:
            rebalance.silent = (trigger.session_timeout_ms or 0) / 1000
        self.begin(rebalance)
        return rebalance

    def _state(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self.state = event["to"]
        if event["to"] == "PreparingRebalance":
            self._begin(event, at, initial=event["from"] == "Empty")
        elif self.epochs is not None:
            self.epochs.state(event, at)
        elif event["to"] == "Empty" and self.current is not None and self.current.generation is None:
            # No member is left to join.
            self.current.generation, self.current.ended = event["generation"], at
        if event["to"] == "Empty":
            self.generation = event["generation"]
            if self.is_of_log:
                self.present, self.size = {}, 0

    def _of_epochs(self) -> Epochs:
        if self.epochs is None:
            self.epochs = Epochs(self)
        return self.epochs

    def _epoch(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self._of_epochs().epoch(event, at)

    def _target(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self._of_epochs().target(event, at)

    def _reconciliation(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self._of_epochs().reconciliation(event, at)
        # A heartbeat of the member brought it about, perhaps its departure for a while.
        self.holders.hear(event["member_id"], at)

    def _round(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        current = self.current
        started = event["started"] + shift
        if current is None or current.ended is not None:
            # A relay writes no `state` event: the round is the first event of the rebalance.
            initial = bool(event.get("inferred")) and not self._generation_members and not self.is_of_log
            current = self._begin(event, started, initial=initial)
        current.end_round(event, shift)
        self.generation, self.protocol = current.generation, current.protocol
        self._generation_members, self.size = current.members, current.size
        self.present = dict.fromkeys(event["members"])
        if not current.members:
            self.owners, self.revoked = {}, {}

    def _assignment(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        current = self.current
        if self.is_of_log:
            self._assignment_of_log(event, at)
        if self.is_of_log and not event["assignments"]:
            return
        after = owners_of(event["assignments"])
        if current is not None and current.generation == event["generation"]:
            current.assigned = at
            current.subscriptions = event.get("subscriptions", {})
            before = {partition: member for partition, (member, _) in self.revoked.items()} | self.owners
            current.owned_before, current.owned_after = before, after
            current.stopped = {partition: since for partition, (_, since) in self.revoked.items()}
            # Partitions without an owner move with the follow-up.
            if current.eager or before.keys() <= after.keys():
                current.moved = compare(before, after, current.members)
        for partition, member in self.owners.items():
            if partition not in after:
                self.revoked[partition] = (member, at)
        for partition in after:
            self.revoked.pop(partition, None)
        self.owners = after

    def _assignment_of_log(self, event: Mapping[str, Any], at: float) -> None:
        """The members had their assignments soon after their record, or the line about them."""
        current = self.current
        if current is not None and current.generation == event["generation"]:
            current.assigned = at
            current.leader = event["leader"] or current.leader
        for member_id in self.present:
            self.members[member_id].polled = at

    # Members

    def _member(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        member = self.member(event["member_id"])
        member.take_names(event)
        change = event["change"]
        if self.is_of_log:
            self._member_of_log(member, event, at)
        if change in _JOINED:
            if member.ended is not None:
                if member.leaves_late or self._has_left_and_lives(member):
                    self.missed_poll(member)
                member.begin_again()
            member.joined = at
            self.ended_by_test.discard(member.member_id)
            self.present[member.member_id] = None
            self.holders.accept(member.member_id, member.instance_id, at)
            if self.epochs is not None:
                self.epochs.on_return(member.member_id, member.instance_id)
        elif change in _GONE:
            change = ENDED_BY_TEST if change == "expired" and member.member_id in self.ended_by_test else change
            member.ended, member.how = at, change
            member.reason = event.get("reason") or self._reasons.pop(member.member_id, member.reason)
            self.present.pop(member.member_id, None)
            if self.epochs is not None:
                had = self.epochs.has(member.member_id)
                member.away = had.since if had.epoch == AWAY else None
                self.epochs.on_departure(member.member_id, member.instance_id, change, at)

    def _member_of_log(self, member: Member, event: Mapping[str, Any], at: float) -> None:
        """Handle a change of a member that a log names: it may have joined before the log began."""
        change = event["change"]
        if change in ("loaded", *_GONE) and member.joined is None:
            # Some time before the log.
            member.joined = self.first - 1.0
        if change == "loaded":
            self.present[member.member_id] = None
        elif change == "refused":
            self.refusals.fence(event, at, event["instance_id"], member.member_id, has_other_client=False)
        elif change == "fenced" and member.instance_id:
            before, self._replaced[member.instance_id] = self._replaced.get(member.instance_id), at
            if before is not None and at - before < _RESTART_S:
                self.refusals.fence(event, at, member.instance_id, member.member_id, has_other_client=True)
        elif change == "added":
            # A consumer of KIP-848 keeps its id as long as its process runs.
            member.lingered = at if member.how in ("expired", "gone") else member.lingered
            member.polled = at
        if change in _GONE and self.size:
            self.size -= 1
        elif change == "added" and self.size is not None:
            self.size += 1

    def _timer(self, event: Mapping[str, Any]) -> None:
        """Learn a member's session timeout from the first timer of its session."""
        if _is_session(event):
            self.sessions.setdefault(event["member_id"], event["deadline"] - event["mono"])

    # Requests

    def _fault(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        if self.current is not None:
            self.current.faults.append(f"{event['action']} of {event['api']}")

    def _intervention(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        if event["change"] == "expired":
            self.ended_by_test.add(event["member_id"])
        elif self.current is not None:
            self.current.faults.append(f"{self.member(event['member_id']).client_id} is {event['change']} by a test")

    def _exchange(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        api, error, member_id = event["api"], event["error"], event["member"] or ""
        current = self.current
        if error:
            self._on_error(event, at)
        if error == ErrorCode.UNRELEASED_INSTANCE_ID:
            self._unreleased(event, at)
        elif api in JOINS:
            library = library_of(event["request"], event["version"]) if api == "JoinGroup" else Library.UNKNOWN
            self.refusals.join(event, at, library)
            if not error and event["request"].get("member_epoch", 0) > 0 and member_id in self.members:
                self.members[member_id].beaten = at
                self.holders.hear(member_id, at)
                if self.epochs is not None:
                    self.epochs.heartbeat(event, at)
        elif error == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            member = self.members.get(member_id)
            self.refusals.join(event, at, Library.UNKNOWN if member is None else member.library)
        if "software" in event and member_id:
            self.member(member_id).take_software(event["software"])
        sender = self.members.get(member_id or self.joined_on.get(event.get("conn", -1), ""))
        if sender is not None:
            sender.library = refined(sender.library, api, event["version"])
        if api == "JoinGroup":
            self._joined(event, shift)
        elif api == "SyncGroup":
            generation = event["request"]["generation_id"]
            self.member(member_id).polled = at
            # A member that syncs again, or joined after the round, delayed no other member.
            if not error:
                self.member(member_id).beaten = at
            if not error and current is not None and generation == current.generation and member_id in current.members:
                current.resumed.setdefault(member_id, at)
                current.synced = max(current.resumed.values())
        elif api == "Heartbeat":
            if error == ErrorCode.REBALANCE_IN_PROGRESS and current is not None:
                current.called.setdefault(member_id, max(0.0, event["arrived"] + shift - current.started))
            elif not error and sender is not None:
                sender.heard(at)
        elif api == "ConsumerGroupHeartbeat":
            if member_id and event["request"]["rebalance_timeout_ms"] >= 0:
                self.member(member_id).rebalance_timeout_ms = event["request"]["rebalance_timeout_ms"]
                self.member(member_id).library = library_of_consumer(member_id)
            if not error:
                self.heartbeat_interval_ms = event["answer"]["heartbeat_interval_ms"]
        elif api == "LeaveGroup":
            for leaver in event["request"]["members"] or ():
                self._leave_reason(leaver["member_id"], leaver.get("reason") or "")
        elif api == "OffsetCommit" and error in _LOST - {ErrorCode.REBALANCE_IN_PROGRESS}:
            by = self.member(member_id) if member_id else sender
            self.refusals.commit(
                event, at, "" if by is None else by.member_id, Library.UNKNOWN if by is None else by.library
            )

    def _on_error(self, event: Mapping[str, Any], at: float) -> None:
        """Learn from an error that a process still runs whose member is no longer in the group."""
        member = self.members.get(event["member"] or event["request"].get("member_id") or "")
        if member is None:
            return
        member.take_refusal(event, at)
        is_fenced = event["error"] == ErrorCode.FENCED_INSTANCE_ID or (
            member.how == "fenced" and event["error"] == ErrorCode.UNKNOWN_MEMBER_ID
        )
        if member.instance_id and is_fenced:
            of_instance = (each for each in self.members.values() if each.instance_id == member.instance_id)
            heir = next((each for each in of_instance if each is not member and each.ended is None), member)
            self.refusals.fence(
                event,
                at,
                member.instance_id,
                member.member_id,
                has_other_client=heir.process != member.process,
            )

    def _unreleased(self, event: Mapping[str, Any], at: float) -> None:
        """Note a consumer that asks for the group instance id of a present member."""
        instance_id = event["request"].get("instance_id")
        members = (self.members[each] for each in self.present)
        holder = next((each for each in members if instance_id and each.instance_id == instance_id), None)
        if holder is None:
            self.holders.refuse(event, at, "", Library.UNKNOWN, 0)
            return
        partitions = sum(owner == holder.member_id for owner in self.owners.values())
        self.holders.refuse(event, at, holder.member_id, holder.library, partitions)

    def _joined(self, event: Mapping[str, Any], shift: float) -> None:
        request, member_id = event["request"], event["member"] or ""
        if not member_id:
            return
        member = self.member(member_id)
        member.take_join(event)
        if not event["error"]:
            self.protocol_type = request.get("protocol_type") or self.protocol_type
        self._came_on(member, event["conn"])
        self._take_over(member)
        current = self.current
        if not event["error"] and current is not None and event["answer"]["generation_id"] == current.generation:
            current.arrived[member_id] = event["arrived"] + shift

    def _take_over(self, heir: Member) -> None:
        """Compare a static member with the fenced one that it replaced: if both joined at the same time, the heir's
        client id shows only now.
        """
        twice = self.refusals.twice.get(heir.instance_id or "")
        fenced = None if twice is None else self.members.get(twice.newest)
        if twice is not None and fenced is not None:
            twice.is_fight |= fenced.ended == heir.joined and fenced.process != heir.process

    def _came_on(self, member: Member, conn: int) -> None:
        """Note the connection of a member. A member before it on the same connection was of the same process: it was
        not restarted. If it left at the end of its poll interval, its application did not poll.
        """
        member.conn = conn
        before = self.members.get(self.joined_on.get(conn, ""))
        self.joined_on[conn] = member.member_id
        # Behind a relay, two connections may have one number.
        is_other = before is None or before is member or before.client_id != member.client_id
        if before is None or is_other or before.ended is None:
            return
        if before.how == "expired":
            if before.lingered is None:
                before.lingered, before.lingered_by = member.joined or before.ended, "JoinGroup"
            # A static member does not leave: it only stops its heartbeats.
            if before.instance_id and before.lingered_by == "JoinGroup" and before.has_missed_poll(self.protocol_type):
                self.missed_poll(before)
        elif before.how == "left" and not before.reason and before.has_missed_poll(self.protocol_type):
            self.missed_poll(before)

    def missed_poll(self, member: Member) -> None:
        """Note that a member left or fell silent because its application did not poll in time, as requests show."""
        member.reason = f"{MISSED_POLL}, {BY_REQUESTS}"
        for each in reversed(self.rebalances):
            if each.trigger == member.member_id and each.cause in (Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED):
                each.cause = Cause.POLL_TIMEOUT_REASON
                break

    def _has_left_and_lives(self, member: Member) -> bool:
        """True if a consumer of KIP-848 that is back under its id, so was not restarted, had missed its poll. The poll
        interval of a share consumer does not show.
        """
        # A log has no poll interval, and little else brings a consumer back under its id.
        if self.kind == "share" or (self.is_of_log and self.epochs is not None):
            return member.how == "left"
        return self.epochs is not None and member.outstayed_poll

    def _leave_reason(self, member_id: str, reason: str) -> None:
        member = self.members.get(member_id)
        if member is not None and member.ended is not None:
            member.reason = reason
        elif reason:
            self._reasons[member_id] = reason

    def _commit(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        records = 0
        for each in event["offsets"]:
            partition = (each["topic"], each["partition"])
            before = self._offsets.get(partition)
            self._offsets[partition] = each["offset"]
            if before is not None:
                records += max(0, each["offset"] - before)
        if event["member_id"] and not event["error"]:
            self.member(event["member_id"]).commits.append(Commit(at, records))
            self.member(event["member_id"]).polled = at

    def _group(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self.state = event["state"] or self.state
        self.generation = event["generation"] if event["generation"] >= 0 else self.generation
        self.was_loaded = self.was_loaded or event["change"] == "loaded"
        if event["change"] in ("deleted", "expired"):
            # A later group of this name may be of another kind.
            self.epochs = None


class History:
    """All groups of a trace, by name."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupHistory] = {}
        self.first = self.last = 0.0
        """Wall-clock time of the first and the last event."""
        self._broker_limits: Mapping[str, int] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Handle the next event."""
        wall = float(event.get("wall", 0.0))
        self.first = self.first or wall
        self.last = wall
        if event["event"] == "trace":
            self._broker_limits = event.get("limits") or self._broker_limits
            return
        group = event.get("group")
        if group and event["event"] != "parked" and (event["event"] != "timer" or _is_session(event)):
            history = self.groups.get(group)
            if history is None:
                history = self.groups[group] = GroupHistory(group)
            history.broker_limits = self._broker_limits
            history.add(event)


def _is_routine(event: Mapping[str, Any]) -> bool:
    """True for an accepted commit, and for an accepted heartbeat without news: no rebalance is proved by it."""
    if event["event"] == "commit":
        return not event.get("error")
    if event["event"] != "exchange" or event["error"]:
        return False
    if event["api"] in ("Heartbeat", "OffsetCommit"):
        return True
    request = event["request"]
    is_heartbeat = event["api"] in JOINS and event["api"] != "JoinGroup"
    return is_heartbeat and request.get("member_epoch", 0) > 0 and request.get("rebalance_timeout_ms", -1) < 0


def _is_session(event: Mapping[str, Any]) -> bool:
    return bool(event["kind"] == "session" and event["change"] == "armed")
