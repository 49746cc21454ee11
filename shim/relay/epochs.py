"""What a group with epochs does, concluded from the heartbeats of its members: consumer, share and streams groups.

Decides which `member`, `epoch`, `target`, `reconciliation` and `state` events a trace gets from outside. All of them
are marked `inferred`. A member that joins, leaves or subscribes to something else makes one epoch; an epoch that comes
of nothing of the kind has its cause in `absent`. What the coordinator means a member to have shows only when it has
it, so a target is complete once the group is at rest. It does not know connections.

Source: KIP-848, KIP-932, KIP-1071; semantics 4.5 to 4.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.types import uuid_text
from kafka_shim.groups.causes import Cause
from kafka_shim.relay.proxied_connection import PendingRequest

SILENT_INTERVALS: Final = 3
"""Heartbeats that a member must have left out before an epoch without another cause is put down to its silence; how
long a session is does not show."""
HOLDERS: Final = 20
"""Members named in `waits_for`; who else has something that a member may wait for does not matter."""
JOIN: Final = 0
LEAVE: Final = -1
AWAY: Final = -2
"""Member epochs of who joins, leaves, and leaves for a while as a static member."""

_GIVES_AGAIN: Final = frozenset({Cause.NEW_MEMBER, Cause.SUBSCRIPTION_CHANGED, Cause.TOPIC_METADATA_CHANGED})
"""The epochs of a share group that give to others what is nobody's."""

Event = dict[str, Any]
Shares: TypeAlias = Mapping[str, frozenset[int]]
"""Topic, or subtopology -> partitions, or tasks; none is empty."""
NOTHING: Final[Shares] = {}


@dataclass(slots=True, eq=False)
class Member:
    """A member as it is seen. `epoch` is the newest it was answered; times are monotonic seconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    last_seen: float
    epoch: int = JOIN
    subscription: dict[str, Any] = field(default_factory=dict)
    """What it subscribes to, by the fields of its heartbeats; empty where none of them was seen."""
    assignor: str = ""
    rebalance_s: float | None = None
    assigned: Shares = field(default_factory=dict)
    revoking: Shares = field(default_factory=dict)
    revocation_sent: float = 0.0
    state: str = ""
    """As its last `reconciliation` event says."""


class Form(NamedTuple):
    """How the heartbeats of one kind say the same things. A field that did not change is None."""

    kind: str
    subscription: tuple[str, ...]
    """The fields of a request that say what a member subscribes to."""
    owned: Callable[[Any], Iterable[Any] | None]
    assigned: Callable[[Any], Iterable[Any] | None]
    units: str = "PARTITIONS"
    shared: bool = False
    """Whether several members may have a partition, so that nobody has to give it up first."""
    begins: int = 1
    """The first group epoch. Where it is 2 a member may be answered 1, which says nothing of the group's."""


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
    """One group. `emit` takes events without their times, `name_of` knows topics by their ids."""

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
        """What somebody gave up and nobody has yet."""
        self._freed_at = 0.0
        self._known: dict[str, frozenset[int]] = {}
        """What anybody has had since the group was at rest."""
        self._subscribers: Counter[frozenset[str]] = Counter()
        """How many members subscribe to the same topics; to an empty set of them where that does not show."""
        self._is_at_rest = True
        self._targeted: int | None = None
        self._interval_s = 5.0
        self._in_flight: dict[PendingRequest, Cause] = {}
        """Requests that make an epoch if they are granted. Others may hear of it before their answer passes here."""
        self._granted: dict[PendingRequest, None] = {}
        """Those of them of which others have heard."""

    def on_request(self, pending: PendingRequest) -> None:
        """A heartbeat was read."""
        request = pending.request
        member = self.members.get(request.member_id)
        if request.member_epoch == LEAVE and member is not None:
            self._in_flight[pending] = Cause.MEMBER_LEFT
        elif request.member_epoch == JOIN and member is None and self._static_of(request) is None:
            self._in_flight[pending] = Cause.NEW_MEMBER
        elif request.member_epoch >= JOIN and member is not None and self._differs(member, request):
            self._in_flight[pending] = Cause.SUBSCRIPTION_CHANGED

    def forget(self, pending: PendingRequest) -> None:
        """It will not be answered."""
        self._in_flight.pop(pending, None)
        self._granted.pop(pending, None)

    def on_answer(self, pending: PendingRequest, answer: Any) -> None:
        """A heartbeat was answered."""
        request = pending.request
        member_id = request.member_id or answer.member_id or ""
        member = self.members.get(member_id)
        was_heard_of = pending in self._granted
        self.forget(pending)
        if answer.error_code:
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID and member is not None:
                self._found_out(member, pending.arrived)
        elif request.member_epoch == LEAVE:
            if not was_heard_of:
                self._left(member_id, pending.arrived)
        elif request.member_epoch == AWAY:
            if member is not None:
                member.last_seen = pending.arrived
                self._now_has(member, AWAY, member.assigned, NOTHING)
        else:
            self._interval_s = answer.heartbeat_interval_ms / 1000 or self._interval_s
            self._heard(member_id, member, pending, answer, was_heard_of)
        self._rest()

    def deleted(self) -> None:
        """The group was deleted."""
        self._event("group", partition=-1, change="deleted", state="Dead", generation=self.epoch or 0, members=0)

    # What members are answered

    def _heard(
        self, member_id: str, member: Member | None, pending: PendingRequest, answer: Any, was_heard_of: bool
    ) -> None:
        request, epoch, at = pending.request, answer.member_epoch, pending.arrived
        shares = self.form.assigned(answer)
        cause = None
        if member is None:
            holder = self._static_of(request)
            if holder is None and request.member_epoch == JOIN:
                cause = None if was_heard_of else Cause.NEW_MEMBER
                if cause is not None and self.epoch is not None:
                    # It is answered the epoch that it made: what was between came first.
                    self._explain(epoch - 1, member_id, at, NOTHING)
            member = self._enter(member_id, holder, pending)
            if self._subscribe(member, request) and holder is not None:
                cause = Cause.STATIC_REPLACED
        elif self._subscribe(member, request) and not was_heard_of:
            cause = Cause.SUBSCRIPTION_CHANGED
        member.last_seen = at
        assigned = member.assigned if shares is None else self._named(shares)
        lost = NOTHING if self.form.shared else without(member.assigned, assigned)
        known = self.epoch
        if cause is Cause.NEW_MEMBER:
            self._begin(max(epoch, self.form.begins, 1 + (known or 0)) if self._counts_up else epoch, cause, member_id)
        elif known is None:
            # What began before the trace did has no event.
            self.epoch = epoch
        elif cause is not None or epoch > known or (lost and epoch == known):
            new = max(epoch, known + 1)
            self._explain(new - (cause is not None), member_id, at, without(assigned, self._known))
            if cause is not None:
                self._begin(new, cause, member_id)
        assert self.epoch is not None
        revoking = NOTHING
        if epoch < self.epoch:
            owned = self.form.owned(request)
            revoking = joined(member.revoking, lost)
            if owned is not None:
                revoking = common(revoking, self._named(owned))
        if self._targeted != self.epoch:
            self._targeted = self.epoch
            self._event("target", generation=self.epoch, assignor=member.assignor, assignments={})
        if revoking and not member.revoking:
            member.revocation_sent = at
        self._now_has(member, epoch, assigned, revoking)

    def _left(self, member_id: str, at: float) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self._goes(member, "left", at)
        if self.epoch is not None:
            self._begin(self.epoch + 1, Cause.MEMBER_LEFT, member_id)

    def _found_out(self, member: Member, at: float) -> None:
        """A member hears that it is none any more; nothing else has shown it."""
        cause, change = self._why_out(member, at) or (None, "removed")
        self._goes(member, change, at)
        if self.epoch is not None:
            self._begin(self.epoch + 1, cause, member.member_id)

    def _enter(self, member_id: str, holder: Member | None, pending: PendingRequest) -> Member:
        """A member that was not known; it takes the place of the `holder` of its instance id."""
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
        if holder is None and request.member_epoch > JOIN:
            member.assigned = self._named(self.form.owned(request) or ())
        return member

    def _subscribe(self, member: Member, request: Any) -> bool:
        """Take over what a heartbeat says of the member; whether it subscribes to something else than before."""
        differs = self._differs(member, request)
        self._subscribers[topics_of(member)] -= 1
        member.subscription = member.subscription | self._said(request)
        self._subscribers[topics_of(member)] += 1
        timeout = getattr(request, "rebalance_timeout_ms", -1)
        if timeout >= 0:
            member.rebalance_s = timeout / 1000
        member.assignor = getattr(request, "server_assignor", None) or member.assignor
        return differs

    def _differs(self, member: Member, request: Any) -> bool:
        return bool(member.subscription) and member.subscription | self._said(request) != member.subscription

    def _said(self, request: Any) -> dict[str, Any]:
        said = {name: _comparable(getattr(request, name)) for name in self.form.subscription}
        return {name: value for name, value in said.items() if value is not None}

    def _static_of(self, request: Any) -> Member | None:
        """The member that has the instance id of a request."""
        instance_id = getattr(request, "instance_id", None)
        if instance_id is None:
            return None
        return next((each for each in self.members.values() if each.instance_id == instance_id), None)

    # Epochs

    @property
    def _counts_up(self) -> bool:
        """Whether a newcomer is answered another epoch than that of the group; then each makes one more."""
        return self.form.begins > 1

    def _explain(self, epoch: int, answered: str, at: float, never_seen: Shares) -> None:
        """The group epoch has come to this one, as an answer shows, and no request did it. `never_seen` are partitions
        in this answer that nobody had before."""
        while self.epoch is not None and self.epoch < epoch:
            if self.form.shared and self._free:
                # A share group gives nobody's partitions to others by an epoch of its own, at the next heartbeat.
                self._begin(self.epoch + 1, Cause.TOPIC_METADATA_CHANGED, answered)
                continue
            if self._in_flight:
                self._grant(next(iter(self._in_flight)), at)
                continue
            out = self._absent(at, answered)
            if out is not None:
                member, why, change = out
                self._goes(member, change, at)
                self._begin(self.epoch + 1, why, member.member_id)
            elif never_seen:
                self._begin(epoch, Cause.TOPIC_METADATA_CHANGED, answered)
            else:
                self._begin(epoch, None, "")

    def _grant(self, pending: PendingRequest, at: float) -> None:
        """A request was granted that is not answered here yet."""
        cause, member_id = self._in_flight.pop(pending), pending.request.member_id
        self._granted[pending] = None
        if cause is Cause.MEMBER_LEFT and member_id in self.members:
            self._goes(self.members[member_id], "left", at)
        self._begin((self.epoch or 0) + 1, cause, member_id)

    def _absent(self, at: float, present: str) -> tuple[Member, Cause, str] | None:
        """Who may have been removed so that an epoch began: of the silent and the late, who was heard of last."""
        for member in sorted(self.members.values(), key=lambda each: each.last_seen):
            why = self._why_out(member, at)
            if member.member_id != present and why is not None:
                return member, *why
        return None

    def _why_out(self, member: Member, at: float) -> tuple[Cause, str] | None:
        if at - member.last_seen > SILENT_INTERVALS * self._interval_s:
            return Cause.SESSION_EXPIRED, "expired"
        if member.revoking and member.rebalance_s is not None and at - member.revocation_sent >= member.rebalance_s:
            return Cause.REBALANCE_TIMEOUT, "removed"
        return None

    def _begin(self, epoch: int, cause: Cause | None, trigger: str) -> None:
        self.epoch = epoch
        self._is_at_rest = False
        self._event("epoch", generation=epoch, cause="" if cause is None else cause.value, trigger=trigger)
        if not self.members or (self.form.shared and cause in _GIVES_AGAIN):
            self._free.clear()

    # What members have

    def _goes(self, member: Member, change: str, at: float) -> None:
        del self.members[member.member_id]
        self._subscribers[topics_of(member)] -= 1
        self._release(joined(member.assigned, member.revoking), at)
        self._member(member, change)

    def _release(self, shares: Shares, at: float) -> None:
        if shares:
            self._free = dict(joined(self._free, shares))
            self._freed_at = at

    def _now_has(self, member: Member, epoch: int, assigned: Shares, revoking: Shares) -> None:
        """What a member has after an answer; an event if anything of it is new."""
        before = member.epoch, member.assigned, member.revoking, member.state
        had = joined(member.assigned, member.revoking)
        if assigned != member.assigned:
            self._known = dict(joined(self._known, assigned))
        member.epoch, member.assigned, member.revoking = epoch, assigned, revoking
        if not self.form.shared:
            self._release(without(had, joined(assigned, revoking)), member.last_seen)
        self._free = dict(without(self._free, assigned))
        holders = self._holders(member) if self._waits(member) else []
        if revoking:
            member.state = f"UNREVOKED_{self.form.units}"
        else:
            member.state = f"UNRELEASED_{self.form.units}" if holders else "STABLE"
        if before != (epoch, assigned, revoking, member.state):
            self._reconciliation(member, holders)

    def _waits(self, member: Member) -> bool:
        """Whether a member has fewer than what every assignor of Kafka gives it: its part of each topic, rounded
        down."""
        if self.form.shared or member.epoch in (JOIN, AWAY) or member.epoch != self.epoch:
            return False
        least, names = 0, topics_of(member)
        for topic, numbers in self._known.items():
            if not names or topic in names:
                takers = sum(count for each, count in self._subscribers.items() if not each or topic in each)
                least += len(numbers) // takers
        return sum(map(len, member.assigned.values())) < least

    def _holders(self, member: Member) -> list[str]:
        """Who may have what a member waits for: who is to give something up, or has not heard of the epoch."""
        others = [each for each in self.members.values() if each is not member]
        late = [each for each in others if each.revoking]
        late = late or [each for each in others if each.assigned and each.epoch != self.epoch]
        return sorted(each.member_id for each in late)[:HOLDERS]

    def _rest(self) -> None:
        """If the group has come to rest, say what everybody has: that was the target."""
        if self._is_at_rest or self.epoch is None:
            return
        playing = [each for each in self.members.values() if each.epoch != AWAY]
        if any(each.revoking or each.epoch != self.epoch for each in playing):
            return
        is_free = self._free and not self.form.shared and any(each.last_seen <= self._freed_at for each in playing)
        if self.members and (is_free or any(self._waits(each) and self._holders(each) for each in playing)):
            return
        self._is_at_rest = True
        if not self.form.shared:
            self._free.clear()
        self._subscribers = +self._subscribers
        self._known = {}
        for each in self.members.values():
            for topic, numbers in each.assigned.items():
                self._known[topic] = self._known.get(topic, frozenset()) | numbers
        for each in playing:
            if each.state != "STABLE":
                each.state = "STABLE"
                self._reconciliation(each, [])
        assignors = {each.assignor for each in playing}
        if playing:
            self._event(
                "target",
                generation=self.epoch,
                assignor=assignors.pop() if len(assignors) == 1 else "",
                assignments={each.member_id: shown(each.assigned) for each in self.members.values()},
            )
        self._event(
            "state",
            **{"from": "Reconciling" if playing else "Stable"},
            to="Stable" if playing else "Empty",
            generation=self.epoch,
            cause=None,
            trigger="",
            rule=self.form.kind,
        )

    def _named(self, shares: Iterable[Any]) -> Shares:
        """What a message says somebody has, by the names of topics, or the ids of those that were not named."""
        found = {}
        for each in shares:
            if each.partitions:
                topic_id = getattr(each, "topic_id", None)
                name = each.subtopology_id if topic_id is None else self._name_of(topic_id) or uuid_text(topic_id)
                found[name] = frozenset(each.partitions)
        return found

    # Events

    def _reconciliation(self, member: Member, holders: list[str]) -> None:
        self._event(
            "reconciliation",
            member_id=member.member_id,
            generation=member.epoch,
            state=member.state,
            assigned=shown(member.assigned),
            revoking=shown(member.revoking),
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
    """The topics that a member subscribes to; none where it says a pattern or a topology, or nothing was seen."""
    if member.subscription.get("subscribed_topic_regex"):
        return frozenset()
    topics: frozenset[str] = member.subscription.get("subscribed_topic_names", frozenset())
    return topics


def _comparable(said: Any) -> Any:
    return frozenset(said) if isinstance(said, list) else said


def joined(some: Shares, more: Shares) -> Shares:
    """What is in either."""
    if not some or not more:
        return some or more
    return {topic: some.get(topic, frozenset()) | more.get(topic, frozenset()) for topic in {**some, **more}}


def without(some: Shares, fewer: Shares) -> Shares:
    """What is in the first and not in the second."""
    left = {topic: numbers - fewer.get(topic, frozenset()) for topic, numbers in some.items()}
    return {topic: numbers for topic, numbers in left.items() if numbers}


def common(some: Shares, other: Shares) -> Shares:
    """What is in both."""
    both = {topic: numbers & other.get(topic, frozenset()) for topic, numbers in some.items()}
    return {topic: numbers for topic, numbers in both.items() if numbers}


def shown(shares: Shares) -> dict[str, list[int]]:
    """As events have it."""
    return {topic: sorted(shares[topic]) for topic in sorted(shares)}
