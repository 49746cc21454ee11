"""Epochs of consumer, share and streams groups, inferred from the heartbeats of their members.

Emits `member`, `epoch`, `target`, `reconciliation` and `state` events, all marked `inferred`. A member that joins,
leaves or changes its subscription starts one epoch; an epoch with no visible trigger is attributed to a silent member
(`_absent`). The relay cannot see a target assignment before its members own it, so a `target` event is complete only
once the group is at rest.

Source: KIP-848, KIP-932, KIP-1071; semantics 4.5 to 4.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.types import uuid_text
from kafka_shim.relay.proxied_connection import PendingRequest
from kafka_shim.trace.causes import Cause

SILENT_INTERVALS: Final = 3
"""An epoch without another trigger is attributed to a member that missed this many heartbeats: the session timeout is
not visible from outside.
"""
MAX_HOLDERS: Final = 20
"""At most this many members are listed in `waits_for`."""
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""Member epochs of a request that joins, leaves, and leaves for a while as a static member."""

_REASSIGNING_CAUSES: Final = frozenset({Cause.NEW_MEMBER, Cause.SUBSCRIPTION_CHANGED, Cause.TOPIC_METADATA_CHANGED})
"""Causes of epochs in which a share group assigns its free partitions."""

Event = dict[str, Any]
Shares: TypeAlias = Mapping[str, frozenset[int]]
"""Topic, or subtopology -> partitions, or tasks; none is empty."""
EMPTY: Final[Shares] = {}


@dataclass(slots=True, eq=False)
class Member:
    """A member as seen from outside. `epoch` is the newest in an answer to it; times are monotonic seconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    last_seen: float
    epoch: int = JOIN_EPOCH
    subscription: dict[str, Any] = field(default_factory=dict)
    """Its subscription, by the fields of its heartbeats; empty if none of them was seen."""
    assignor: str = ""
    rebalance_s: float | None = None
    assigned: Shares = field(default_factory=dict)
    revoking: Shares = field(default_factory=dict)
    revocation_sent: float = 0.0
    state: str = ""
    """The state in its last `reconciliation` event."""


class Form(NamedTuple):
    """Form of one kind of heartbeat: the fields with a member's subscription and partitions. An unchanged field is
    None.
    """

    kind: str
    subscription: tuple[str, ...]
    """The fields of a request with the subscription of a member."""
    owned: Callable[[Any], Iterable[Any] | None]
    assigned: Callable[[Any], Iterable[Any] | None]
    units: str = "PARTITIONS"
    shared: bool = False
    """Several members may share a partition, so that none has to revoke it first."""
    begins: int = 1
    """The first group epoch. If it is 2, a member may be answered epoch 1, below that of the group."""


def _assignment(answer: Any) -> Iterable[Any] | None:
    return None if answer.assignment is None else answer.assignment.topic_partitions


FORMS: Final = {
    "ConsumerGroupHeartbeat": Form(
        "consumer",
        ("subscribed_topic_names", "subscribed_topic_regex"),
        lambda request: request.topic_partitions,
        _assignment,
    ),
    "ShareGroupHeartbeat": Form("share", ("subscribed_topic_names",), lambda request: None, _assignment, shared=True),
    "StreamsGroupHeartbeat": Form(
        "streams",
        ("topology",),
        lambda request: request.active_tasks,
        lambda answer: answer.active_tasks,
        units="TASKS",
        begins=2,
    ),
}
"""By the name of the API."""


class EpochGroup:
    """One group. `emit` takes events without their times, `name_of` returns the name of a topic id."""

    def __init__(
        self, group_id: str, form: Form, emit: Callable[[Event], None], name_of: Callable[[bytes], str | None]
    ) -> None:
        self.group_id = group_id
        self.form = form
        self.members: dict[str, Member] = {}
        self.epoch: int | None = None
        self._emit = emit
        self._name_of = name_of
        self._free: dict[str, frozenset[int]] = {}
        """Partitions that a member revoked and no other member has yet."""
        self._freed_at = 0.0
        self._partitions: dict[str, frozenset[int]] = {}
        """All partitions that a member has had since the group was at rest."""
        self._subscribers: Counter[frozenset[str]] = Counter()
        """Number of members per set of subscribed topics; the empty set if the topics are not visible."""
        self._is_at_rest = True
        self._target_epoch: int | None = None
        self._interval_s = 5.0
        self._in_flight: dict[PendingRequest, Cause] = {}
        """Requests that start an epoch if they are granted. Other members may get that epoch before the answer passes
        here.
        """
        self._granted: dict[PendingRequest, None] = {}
        """Those of them with an epoch that another member has got already."""

    def on_request(self, pending: PendingRequest) -> None:
        """Handle a heartbeat request."""
        request = pending.request
        member = self.members.get(request.member_id)
        if request.member_epoch == LEAVE_EPOCH and member is not None:
            self._in_flight[pending] = Cause.MEMBER_LEFT
        elif request.member_epoch == JOIN_EPOCH and member is None and self._static_of(request) is None:
            self._in_flight[pending] = Cause.NEW_MEMBER
        elif request.member_epoch >= JOIN_EPOCH and member is not None and self._differs(member, request):
            self._in_flight[pending] = Cause.SUBSCRIPTION_CHANGED

    def forget(self, pending: PendingRequest) -> None:
        """Forget a request that will not be answered."""
        self._in_flight.pop(pending, None)
        self._granted.pop(pending, None)

    def on_answer(self, pending: PendingRequest, answer: Any) -> None:
        """Handle the answer to a heartbeat."""
        request = pending.request
        member_id = request.member_id or answer.member_id or ""
        member = self.members.get(member_id)
        was_granted = pending in self._granted
        self.forget(pending)
        if answer.error_code:
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID and member is not None:
                self._on_unknown_member(member, pending.arrived)
        elif request.member_epoch == LEAVE_EPOCH:
            if not was_granted:
                self._on_left(member_id, pending.arrived)
        elif request.member_epoch == STATIC_LEAVE_EPOCH:
            if member is not None:
                member.last_seen = pending.arrived
                self._update(member, STATIC_LEAVE_EPOCH, member.assigned, EMPTY)
        else:
            self._interval_s = answer.heartbeat_interval_ms / 1000 or self._interval_s
            self._on_granted(member_id, member, pending, answer, was_granted)
        self._rest()

    def on_deleted(self) -> None:
        """Emit the event of the deleted group."""
        self._event("group", partition=-1, change="deleted", state="Dead", generation=self.epoch or 0, members=0)

    # Answers

    def _on_granted(
        self, member_id: str, member: Member | None, pending: PendingRequest, answer: Any, was_granted: bool
    ) -> None:
        request, epoch, at = pending.request, answer.member_epoch, pending.arrived
        shares = self.form.assigned(answer)
        cause = None
        if member is None:
            holder = self._static_of(request)
            if holder is None and request.member_epoch == JOIN_EPOCH:
                cause = None if was_granted else Cause.NEW_MEMBER
                if cause is not None and self.epoch is not None:
                    # The answer has the epoch that this join started: all epochs before it came first.
                    self._explain(epoch - 1, member_id, at, EMPTY)
            member = self._enter(member_id, holder, pending)
            if self._subscribe(member, request) and holder is not None:
                cause = Cause.STATIC_REPLACED
        elif self._subscribe(member, request) and not was_granted:
            cause = Cause.SUBSCRIPTION_CHANGED
        member.last_seen = at
        assigned = member.assigned if shares is None else self._by_name(shares)
        revoked = EMPTY if self.form.shared else without(member.assigned, assigned)
        known_epoch = self.epoch
        if cause is Cause.NEW_MEMBER:
            # Within the assignment interval a new member is answered the assignment epoch, below that of the group; one
            # without topics starts no epoch then.
            if known_epoch is None or epoch > known_epoch or self._counts_up or any(member.subscription.values()):
                self._begin(max(epoch, self.form.begins, 1 + (known_epoch or 0)), cause, member_id)
        elif known_epoch is None:
            # An epoch from before the trace has no event.
            self.epoch = epoch
        elif cause is not None or epoch > known_epoch or (revoked and epoch == known_epoch):
            new = max(epoch, known_epoch + 1)
            self._explain(new - (cause is not None), member_id, at, without(assigned, self._partitions))
            if cause is not None:
                self._begin(new, cause, member_id)
        assert self.epoch is not None
        revoking = EMPTY
        if epoch < self.epoch:
            owned = self.form.owned(request)
            revoking = union(member.revoking, revoked)
            if owned is not None:
                revoking = common(revoking, self._by_name(owned))
        # An older epoch without a revocation: the target waits for the assignment interval.
        if self._target_epoch != self.epoch and (epoch >= self.epoch or revoking):
            self._target_epoch = self.epoch
            self._event("target", generation=self.epoch, assignor=member.assignor, assignments={})
        if revoking and not member.revoking:
            member.revocation_sent = at
        self._update(member, epoch, assigned, revoking)

    def _on_left(self, member_id: str, at: float) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self._remove(member, "left", at)
        if self.epoch is not None:
            self._begin(self.epoch + 1, Cause.MEMBER_LEFT, member_id)

    def _on_unknown_member(self, member: Member, at: float) -> None:
        """Remove a member after the answer UNKNOWN_MEMBER_ID to its heartbeat: its removal was not visible before."""
        cause, change = self._removal_cause(member, at) or (None, "removed")
        self._remove(member, change, at)
        if self.epoch is not None:
            self._begin(self.epoch + 1, cause, member.member_id)

    def _enter(self, member_id: str, holder: Member | None, pending: PendingRequest) -> Member:
        """Add a new member; it replaces the `holder` of its instance id."""
        request = pending.request
        member = Member(
            member_id,
            getattr(request, "instance_id", None),
            pending.client_id,
            pending.connection.client_host,
            pending.arrived,
        )
        if holder is not None:
            del self.members[holder.member_id]
            self._member(holder, "fenced")
            member.subscription, member.assignor = holder.subscription, holder.assignor
            member.assigned, member.rebalance_s = holder.assigned, holder.rebalance_s
            self._subscribers[topics_of(holder)] -= 1
        self.members[member_id] = member
        self._subscribers[topics_of(member)] += 1
        self._member(member, "added" if holder is None else "replaced")
        if holder is None and request.member_epoch > JOIN_EPOCH:
            member.assigned = self._by_name(self.form.owned(request) or ())
        return member

    def _subscribe(self, member: Member, request: Any) -> bool:
        """Update a member from its heartbeat; return True if its subscription changed."""
        differs = self._differs(member, request)
        self._subscribers[topics_of(member)] -= 1
        member.subscription = member.subscription | self._subscription_of(request)
        self._subscribers[topics_of(member)] += 1
        timeout = getattr(request, "rebalance_timeout_ms", -1)
        if timeout >= 0:
            member.rebalance_s = timeout / 1000
        member.assignor = getattr(request, "server_assignor", None) or member.assignor
        return differs

    def _differs(self, member: Member, request: Any) -> bool:
        return bool(member.subscription) and member.subscription | self._subscription_of(request) != member.subscription

    def _subscription_of(self, request: Any) -> dict[str, Any]:
        subscription = {name: _comparable(getattr(request, name)) for name in self.form.subscription}
        return {name: value for name, value in subscription.items() if value is not None}

    def _static_of(self, request: Any) -> Member | None:
        """Return the member with the instance id of a request."""
        instance_id = getattr(request, "instance_id", None)
        if instance_id is None:
            return None
        return next((each for each in self.members.values() if each.instance_id == instance_id), None)

    # Epochs

    @property
    def _counts_up(self) -> bool:
        """True if a new member is answered another epoch than the group's; then each new member starts one more."""
        return self.form.begins > 1

    def _explain(self, epoch: int, answered: str, at: float, never_seen: Shares) -> None:
        """Emit the epochs up to `epoch`, which an answer shows and no answered request started. `never_seen` are
        partitions in this answer that no member had before.
        """
        while self.epoch is not None and self.epoch < epoch:
            if self.form.shared and self._free:
                # A share group assigns free partitions in an extra epoch, at the next heartbeat.
                self._begin(self.epoch + 1, Cause.TOPIC_METADATA_CHANGED, answered)
                continue
            if self._in_flight:
                self._grant(next(iter(self._in_flight)), at)
                continue
            absentee = self._absent(at, answered)
            if absentee is not None:
                member, cause, change = absentee
                self._remove(member, change, at)
                self._begin(self.epoch + 1, cause, member.member_id)
            elif never_seen:
                self._begin(epoch, Cause.TOPIC_METADATA_CHANGED, answered)
            else:
                self._begin(epoch, None, "")

    def _grant(self, pending: PendingRequest, at: float) -> None:
        """Apply a request that was granted before its answer passed here."""
        cause, member_id = self._in_flight.pop(pending), pending.request.member_id
        self._granted[pending] = None
        if cause is Cause.MEMBER_LEFT and member_id in self.members:
            self._remove(self.members[member_id], "left", at)
        self._begin((self.epoch or 0) + 1, cause, member_id)

    def _absent(self, at: float, present: str) -> tuple[Member, Cause, str] | None:
        """Return the member that may have started an epoch by its removal: of the silent and the late ones, the longest
        silent.
        """
        for member in sorted(self.members.values(), key=lambda each: each.last_seen):
            removal = self._removal_cause(member, at)
            if member.member_id != present and removal is not None:
                return member, *removal
        return None

    def _removal_cause(self, member: Member, at: float) -> tuple[Cause, str] | None:
        if at - member.last_seen > SILENT_INTERVALS * self._interval_s:
            return Cause.SESSION_EXPIRED, "expired"
        if member.revoking and member.rebalance_s is not None and at - member.revocation_sent >= member.rebalance_s:
            return Cause.REBALANCE_TIMEOUT, "removed"
        return None

    def _begin(self, epoch: int, cause: Cause | None, trigger: str) -> None:
        self.epoch = epoch
        self._is_at_rest = False
        self._event("epoch", generation=epoch, cause="" if cause is None else cause.value, trigger=trigger)
        if not self.members or (self.form.shared and cause in _REASSIGNING_CAUSES):
            self._free.clear()

    # Assignments

    def _remove(self, member: Member, change: str, at: float) -> None:
        del self.members[member.member_id]
        self._subscribers[topics_of(member)] -= 1
        self._release(union(member.assigned, member.revoking), at)
        self._member(member, change)

    def _release(self, shares: Shares, at: float) -> None:
        if shares:
            self._free = dict(union(self._free, shares))
            self._freed_at = at

    def _update(self, member: Member, epoch: int, assigned: Shares, revoking: Shares) -> None:
        """Set a member's epoch and partitions after an answer; emit an event if anything changed."""
        before = member.epoch, member.assigned, member.revoking, member.state
        before_shares = union(member.assigned, member.revoking)
        if assigned != member.assigned:
            self._partitions = dict(union(self._partitions, assigned))
        member.epoch, member.assigned, member.revoking = epoch, assigned, revoking
        if not self.form.shared:
            self._release(without(before_shares, union(assigned, revoking)), member.last_seen)
        self._free = dict(without(self._free, assigned))
        holders = self._holders(member) if self._waits_for_more(member) else []
        if revoking:
            member.state = f"UNREVOKED_{self.form.units}"
        else:
            member.state = f"UNRELEASED_{self.form.units}" if holders else "STABLE"
        if before != (epoch, assigned, revoking, member.state):
            self._reconciliation(member, holders)

    def _waits_for_more(self, member: Member) -> bool:
        """True if a member has fewer partitions than every assignor of Kafka gives it: its share of each topic, rounded
        down.
        """
        if self.form.shared or member.epoch in (JOIN_EPOCH, STATIC_LEAVE_EPOCH) or member.epoch != self.epoch:
            return False
        least, names = 0, topics_of(member)
        for topic, numbers in self._partitions.items():
            if not names or topic in names:
                subscribers = sum(count for each, count in self._subscribers.items() if not each or topic in each)
                least += len(numbers) // subscribers
        return sum(map(len, member.assigned.values())) < least

    def _holders(self, member: Member) -> list[str]:
        """Return the members that may have the partitions another one waits for: those that must revoke, or have an old
        epoch.
        """
        others = [each for each in self.members.values() if each is not member]
        late = [each for each in others if each.revoking]
        late = late or [each for each in others if each.assigned and each.epoch != self.epoch]
        return sorted(each.member_id for each in late)[:MAX_HOLDERS]

    def _rest(self) -> None:
        """If the group has come to rest, emit the partitions of all members as its target."""
        if self._is_at_rest or self.epoch is None:
            return
        active = [each for each in self.members.values() if each.epoch != STATIC_LEAVE_EPOCH]
        if any(each.revoking or each.epoch != self.epoch for each in active):
            return
        is_free = self._free and not self.form.shared and any(each.last_seen <= self._freed_at for each in active)
        if self.members and (is_free or any(self._waits_for_more(each) and self._holders(each) for each in active)):
            return
        self._is_at_rest = True
        if not self.form.shared:
            self._free.clear()
        self._subscribers = +self._subscribers
        self._partitions = {}
        for each in self.members.values():
            for topic, numbers in each.assigned.items():
                self._partitions[topic] = self._partitions.get(topic, frozenset()) | numbers
        for each in active:
            if each.state != "STABLE":
                each.state = "STABLE"
                self._reconciliation(each, [])
        assignors = {each.assignor for each in active}
        if active:
            self._event(
                "target",
                generation=self.epoch,
                assignor=assignors.pop() if len(assignors) == 1 else "",
                assignments={each.member_id: sorted_shares(each.assigned) for each in self.members.values()},
            )
        self._event(
            "state",
            **{"from": "Reconciling" if active else "Stable"},
            to="Stable" if active else "Empty",
            generation=self.epoch,
            cause=None,
            trigger="",
            rule=self.form.kind,
        )

    def _by_name(self, shares: Iterable[Any]) -> Shares:
        """Return the partitions of a message by topic name, or by topic id if the name is unknown."""
        names = {}
        for each in shares:
            if each.partitions:
                topic_id = getattr(each, "topic_id", None)
                name = each.subtopology_id if topic_id is None else self._name_of(topic_id) or uuid_text(topic_id)
                names[name] = frozenset(each.partitions)
        return names

    # Events

    def _reconciliation(self, member: Member, holders: list[str]) -> None:
        self._event(
            "reconciliation",
            member_id=member.member_id,
            generation=member.epoch,
            state=member.state,
            assigned=sorted_shares(member.assigned),
            revoking=sorted_shares(member.revoking),
            waits_for=holders if member.state.startswith("UNRELEASED") else [],
        )

    def _member(self, member: Member, change: str) -> None:
        self._event(
            "member",
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            change=change,
            rule=self.form.kind,
        )

    def _event(self, event: str, **fields: Any) -> None:
        self._emit({"event": event, "group": self.group_id, **fields, "inferred": True})


def topics_of(member: Member) -> frozenset[str]:
    """Return the topics that a member subscribes to; empty for a pattern, a topology or an unseen subscription."""
    if member.subscription.get("subscribed_topic_regex"):
        return frozenset()
    topics: frozenset[str] = member.subscription.get("subscribed_topic_names", frozenset())
    return topics


def _comparable(subscription: Any) -> Any:
    return frozenset(subscription) if isinstance(subscription, list) else subscription


def union(first: Shares, second: Shares) -> Shares:
    """Return the union."""
    if not first or not second:
        return first or second
    return {topic: first.get(topic, frozenset()) | second.get(topic, frozenset()) for topic in {**first, **second}}


def without(first: Shares, second: Shares) -> Shares:
    """Return the partitions in the first and not in the second."""
    rest = {topic: numbers - second.get(topic, frozenset()) for topic, numbers in first.items()}
    return {topic: numbers for topic, numbers in rest.items() if numbers}


def common(first: Shares, second: Shares) -> Shares:
    """Return the intersection."""
    both = {topic: numbers & second.get(topic, frozenset()) for topic, numbers in first.items()}
    return {topic: numbers for topic, numbers in both.items() if numbers}


def sorted_shares(shares: Shares) -> dict[str, list[int]]:
    """Convert to the form of events."""
    return {topic: sorted(shares[topic]) for topic in sorted(shares)}
