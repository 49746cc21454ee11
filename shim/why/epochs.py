"""What the members of a consumer group (KIP-848) have and are to have, gathered from the events of a trace.

Decides which events belong to one of its rebalances, and who owns what meanwhile. How a rebalance is judged is in
`reconciliation.py`, what every kind of group has in common in `history.py`. All times are seconds of Unix time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from kafka_shim.groups.causes import Cause
from kafka_shim.why.moves import Partition, compare
from kafka_shim.why.rebalance import Rebalance
from kafka_shim.why.reconciliation import AWAY, Current, Reconciliation, Wait

STABLE: Final = "STABLE"
WITH_EPOCHS: Final = frozenset({"consumer", "share", "streams"})
"""The kinds of groups that have epochs, as the `rule` of their events names them. A streams group has tasks, by
subtopology, where others have partitions."""


class Group(Protocol):
    """What is known of a group of any kind; see `GroupHistory`, which implements it."""

    generation: int | None
    protocol: str
    present: dict[str, None]
    owners: dict[Partition, str]
    revoked: dict[Partition, tuple[str, float]]
    current: Rebalance | None
    sessions: dict[str, float]

    @property
    def group(self) -> str: ...

    def member(self, member_id: str) -> object: ...

    def begin(self, rebalance: Rebalance) -> None: ...


class Epochs:
    """`targets` is what each member is to have, `current` what it has, both by member id."""

    def __init__(self, history: Group) -> None:
        self.kind = "consumer"
        self.targets: dict[str, frozenset[Partition]] = {}
        self.current: dict[str, Current] = {}
        self._history = history
        self._places: dict[str, frozenset[Partition]] = {}
        """Target assignments of static members that lost their place, by group instance id."""

    def epoch(self, event: Mapping[str, Any], at: float) -> None:
        """A group epoch began."""
        history = self._history
        before = history.current
        if before is not None and before.over is None:
            before.superseded = at
            if isinstance(before, Reconciliation):
                before.holding = tuple(member for member, has in self.current.items() if has.revoking)
        owned = {partition: member for partition, (member, _) in history.revoked.items()} | history.owners
        rebalance = Reconciliation(
            group=history.group,
            cause=event["cause"] or "",
            trigger=event["trigger"],
            started=at,
            wall=at,
            first_seq=event.get("seq", 0),
            last_seq=event.get("seq", 0),
            initial=list(history.present) == [event["trigger"]],
            eager=False,
            generation_before=event["generation"] - 1,
            generation=event["generation"],
            inferred=bool(event.get("inferred")),
            members=tuple(history.present),
            owned_before=owned,
        )
        if rebalance.cause == Cause.SESSION_EXPIRED:
            rebalance.silent = history.sessions.get(rebalance.trigger, 0.0)
        history.begin(rebalance)
        history.generation = event["generation"]
        if not history.present:
            # Nobody is left to assign anything to.
            rebalance.assigned = at
            history.owners, history.revoked = {}, {}

    def target(self, event: Mapping[str, Any], at: float) -> None:
        """A target assignment was computed; members it does not name have theirs still."""
        history = self._history
        for member, topics in event["assignments"].items():
            self.targets[member] = partitions_of(topics)
        history.protocol = event["assignor"]
        rebalance = history.current
        if not isinstance(rebalance, Reconciliation):
            return
        # What a relay knows of a target is complete when the group has come to rest.
        if rebalance.targeted is None or event.get("inferred"):
            rebalance.targeted = at if rebalance.targeted is None else rebalance.targeted
            rebalance.protocol = event["assignor"]
            rebalance.members = tuple(history.present)
            after = {partition: member for member in history.present for partition in self.target_of(member)}
            rebalance.owned_after = after
            rebalance.moved = compare(rebalance.owned_before, after, rebalance.members)

    def has(self, member_id: str) -> Current:
        """What a member has; of one that did not speak since the group was a classic one, what it had then."""
        found = self.current.get(member_id)
        if found is None:
            owned = (partition for partition, owner in self._history.owners.items() if owner == member_id)
            found = self.current[member_id] = Current(assigned=frozenset(owned))
        return found

    def target_of(self, member_id: str) -> frozenset[Partition]:
        """What a member is to have; what it has, where the trace does not say."""
        found = self.targets.get(member_id)
        return self.has(member_id).assigned if found is None else found

    def reconciliation(self, event: Mapping[str, Any], at: float) -> None:
        """A member came nearer to its target assignment."""
        member_id, history = event["member_id"], self._history
        history.member(member_id)
        before = self.has(member_id)
        has = self.current[member_id] = Current(
            epoch=event["generation"],
            state=event["state"],
            assigned=partitions_of(event["assigned"]),
            revoking=partitions_of(event["revoking"]),
            waits_for=tuple(event["waits_for"]),
            since=at,
        )
        rebalance = history.current if isinstance(history.current, Reconciliation) else None
        for partition in before.assigned - has.assigned:
            if history.owners.get(partition) == member_id:
                del history.owners[partition]
                history.revoked[partition] = member_id, at
        for partition in has.assigned:
            history.owners[partition] = member_id
            freed = history.revoked.pop(partition, None)
            if freed is not None and rebalance is not None:
                rebalance.stood_still += max(0.0, at - freed[1])
        if rebalance is None or rebalance.assigned is not None or has.epoch == AWAY:
            return
        if has.revoking and not before.revoking:
            rebalance.revocation_sent[member_id] = at
        if before.revoking and not has.revoking:
            rebalance.released[member_id] = at
        for holder in has.waits_for:
            rebalance.waits.setdefault(Wait(member_id, holder), at)
        if has.state == STABLE and has.epoch == rebalance.generation:
            rebalance.settled[member_id] = at
            # A group of one member may be Stable before and after, and then no `state` event says so.
            settled = rebalance.settled
            if len(settled) >= len(history.present) and history.present.keys() <= settled.keys():
                rebalance.assigned = at

    def state(self, event: Mapping[str, Any], at: float) -> None:
        """The group is in another state; one that is Stable has ended its rebalance."""
        if event["rule"] in WITH_EPOCHS:
            self.kind = event["rule"]
        rebalance = self._history.current
        if event["to"] == "Stable" and isinstance(rebalance, Reconciliation) and rebalance.assigned is None:
            rebalance.assigned = max(at, rebalance.started)

    def gone(self, member_id: str, instance_id: str | None, how: str, at: float) -> None:
        """A member left or was removed."""
        history = self._history
        has = self.has(member_id)
        del self.current[member_id]
        target = self.targets.pop(member_id, frozenset())
        if instance_id is not None and how == "fenced":
            self._places[instance_id] = target
        silent = history.sessions.get(member_id, 0.0) if how == "expired" else 0.0
        for partition in has.assigned:
            if history.owners.get(partition) == member_id:
                del history.owners[partition]
                history.revoked[partition] = member_id, at - silent
        rebalance = history.current
        if isinstance(rebalance, Reconciliation) and rebalance.over is None:
            if has.revoking:
                rebalance.released[member_id] = at
            if how in ("expired", "removed"):
                rebalance.dropped = (*rebalance.dropped, member_id)

    def took_place(self, member_id: str, instance_id: str | None) -> None:
        """A static member is back under another id: its target assignment is what it was."""
        if instance_id in self._places:
            self.targets[member_id] = self._places.pop(instance_id)

    def waiting(self) -> list[tuple[str, str]]:
        """Whom the rebalance under way waits for, by member id, each with what it is to do."""
        history = self._history
        rebalance = history.current
        if not isinstance(rebalance, Reconciliation) or rebalance.over is not None:
            return []
        if rebalance.targeted is None:
            return [("", "any member is to send a heartbeat")]
        found = []
        for member_id in history.present:
            has = self.has(member_id)
            if has.epoch == AWAY:
                found.append((member_id, "is away, a static member, and is to come back or expire"))
            elif has.revoking:
                count = len(has.revoking)
                found.append((member_id, f"is to give up {count} partition{'s' * (count != 1)}"))
            elif (has.state != STABLE or has.epoch != rebalance.generation) and not any(
                self.has(holder).revoking for holder in has.waits_for
            ):
                found.append((member_id, "is to send a heartbeat"))
        return found


def partitions_of(topics: Mapping[str, Iterable[int]]) -> frozenset[Partition]:
    """Partitions by topic, as events have them."""
    return frozenset((topic, number) for topic, numbers in topics.items() for number in numbers)
