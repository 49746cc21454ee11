"""Epochs and assignments of a group with epochs (KIP-848), collected from the events of a trace.

It assigns events to rebalances and tracks the owners of partitions. `reconciliation.py` has the phases of one
rebalance, `history.py` the parts common to all kinds of groups. All times are seconds of Unix time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from kafka_shim.trace.causes import Cause
from kafka_shim.trace.moves import Partition, compare
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.trace.reconciliation import AWAY, Current, Reconciliation, Wait

STABLE: Final = "STABLE"
WITH_EPOCHS: Final = frozenset({"consumer", "share", "streams"})
"""Kinds of groups with epochs, as in the `rule` of their events. A streams group has tasks, by subtopology, instead of
partitions.
"""


class Group(Protocol):
    """Parts of `GroupHistory` that this module uses."""

    generation: int | None
    protocol: str
    present: dict[str, None]
    owners: dict[Partition, str]
    revoked: dict[Partition, tuple[str, float]]
    current: Rebalance | None
    sessions: dict[str, float]

    @property
    def group(self) -> str: ...

    @property
    def lacks_assignments(self) -> bool: ...

    def member(self, member_id: str) -> object: ...

    def is_by_test(self, rebalance: Rebalance) -> bool: ...

    def begin(self, rebalance: Rebalance) -> None: ...


class Epochs:
    """Member assignments of one group: `targets` are the target assignments, `current` the present ones, by member
    id.
    """

    def __init__(self, history: Group) -> None:
        self.kind = "consumer"
        self.targets: dict[str, frozenset[Partition]] = {}
        self.current: dict[str, Current] = {}
        self._history = history
        self._places: dict[str, frozenset[Partition]] = {}
        """Target assignments of static members that were replaced, by group instance id."""

    def epoch(self, event: Mapping[str, Any], at: float) -> None:
        """Handle the start of a group epoch."""
        history = self._history
        before = history.current
        if before is not None and before.over is None:
            # A log may lack the line about the assignment; this epoch may begin long afterwards.
            before.superseded = before.started if history.lacks_assignments else at
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
            initial=list(history.present) == [event["trigger"]]
            and not (history.lacks_assignments and event["generation"] > 2),
            eager=False,
            generation_before=event["generation"] - 1,
            generation=event["generation"],
            inferred=bool(event.get("inferred")),
            members=tuple(history.present),
            owned_before=owned,
            lines=(event["where"],) if "where" in event else (),
            interval_ended=at + event["waits_ms"] / 1000 if "waits_ms" in event else None,
        )
        rebalance.by_test = history.is_by_test(rebalance)
        if rebalance.cause == Cause.SESSION_EXPIRED and not rebalance.by_test:
            rebalance.silent = history.sessions.get(rebalance.trigger, 0.0)
        history.begin(rebalance)
        history.generation = event["generation"]
        if not history.present and not history.lacks_assignments:
            # No member is left to assign partitions to.
            rebalance.assigned = at
            history.owners, history.revoked = {}, {}

    def target(self, event: Mapping[str, Any], at: float) -> None:
        """Handle a new target assignment; a member that it does not name keeps its target."""
        history = self._history
        for member, topics in event["assignments"].items():
            self.targets[member] = partitions_of(topics)
        history.protocol = event["assignor"]
        rebalance = history.current
        if not isinstance(rebalance, Reconciliation):
            return
        # A relay's target is complete only when the group has come to rest.
        if rebalance.targeted is None or event.get("inferred"):
            rebalance.targeted = at if rebalance.targeted is None else rebalance.targeted
            rebalance.protocol = event["assignor"]
            rebalance.members = tuple(history.present)
            after = {partition: member for member in history.present for partition in self.target_of(member)}
            rebalance.owned_after = after
            rebalance.moved = compare(rebalance.owned_before, after, rebalance.members)
        if history.lacks_assignments:
            # The time at which the members had it is in no line.
            rebalance.assigned = at

    def has(self, member_id: str) -> Current:
        """Return a member's current assignment; before its first heartbeat, the one it had in the classic group."""
        current = self.current.get(member_id)
        if current is None:
            owned = (partition for partition, owner in self._history.owners.items() if owner == member_id)
            current = self.current[member_id] = Current(assigned=frozenset(owned))
        return current

    def target_of(self, member_id: str) -> frozenset[Partition]:
        """Return a member's target assignment; its current one if the trace has none."""
        target = self.targets.get(member_id)
        return self.has(member_id).assigned if target is None else target

    def reconciliation(self, event: Mapping[str, Any], at: float) -> None:
        """Handle a step of a member towards its target assignment."""
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
            # A group of one member may be Stable before and after, and then there is no `state` event.
            settled = rebalance.settled
            if len(settled) >= len(history.present) and history.present.keys() <= settled.keys():
                rebalance.assigned = at

    def heartbeat(self, event: Mapping[str, Any], at: float) -> None:
        """Handle a heartbeat that a relay has seen. An answer with an older epoch and without an assignment shows that
        the target still waits for the assignment interval, unless the member has partitions to revoke."""
        answer, rebalance = event["answer"], self._history.current
        if not isinstance(rebalance, Reconciliation) or not rebalance.inferred or rebalance.targeted is not None:
            return
        has_assignment = answer.get("assignment") is not None or answer.get("active_tasks") is not None
        # A line of a client's log has no epoch.
        is_older = 0 < answer.get("member_epoch", 0) < (rebalance.generation or 0)
        if is_older and not has_assignment and not self.has(event["member"]).revoking:
            rebalance.interval_ended = at

    def state(self, event: Mapping[str, Any], at: float) -> None:
        """Handle a change of the group's state; Stable ends its rebalance."""
        if event["rule"] in WITH_EPOCHS:
            self.kind = event["rule"]
        rebalance = self._history.current
        if event["to"] == "Stable" and isinstance(rebalance, Reconciliation) and rebalance.assigned is None:
            rebalance.assigned = max(at, rebalance.started)

    def on_departure(self, member_id: str, instance_id: str | None, how: str, at: float) -> None:
        """Handle a member that left or was removed."""
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

    def on_return(self, member_id: str, instance_id: str | None) -> None:
        """Give a static member that returned under another id its old target assignment."""
        if instance_id in self._places:
            self.targets[member_id] = self._places.pop(instance_id)

    def waiting(self) -> list[tuple[str, str]]:
        """Return the members that the current rebalance waits for, each with its missing action."""
        history = self._history
        rebalance = history.current
        if not isinstance(rebalance, Reconciliation) or rebalance.over is not None or history.lacks_assignments:
            return []
        if rebalance.targeted is None:
            wait = "" if rebalance.interval_ended is None else "the assignment interval must pass, and then "
            return [("", f"{wait}any member must send a heartbeat")]
        missing = []
        for member_id in history.present:
            has = self.has(member_id)
            if has.epoch == AWAY:
                missing.append((member_id, "is away, a static member, and must come back or expire"))
            elif has.revoking:
                count = len(has.revoking)
                missing.append((member_id, f"must give up {count} partition{'s' * (count != 1)}"))
            elif (has.state != STABLE or has.epoch != rebalance.generation) and not any(
                self.has(holder).revoking for holder in has.waits_for
            ):
                missing.append((member_id, "must send a heartbeat"))
        return missing


def partitions_of(topics: Mapping[str, Iterable[int]]) -> frozenset[Partition]:
    """Convert partitions by topic, as in events."""
    return frozenset((topic, number) for topic, numbers in topics.items() for number in numbers)
