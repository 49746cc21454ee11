"""The work of one group with epochs: heartbeats and commits, target assignments, and reconciliation.

Follows KIP-848: a member first gives up the partitions that others get, then reaches the new epoch, then gets the
partitions that others have given up. Members of a share group have their targets at once. `epoch_group.py` decides when
members come and go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, Final

from kafka_shim.pipeline.generate.faults import Fault, Kind
from kafka_shim.pipeline.generate.heartbeats import APIS, JOIN, answer, by_topic, request, uuid_text
from kafka_shim.pipeline.generate.rounds import COMMIT_S, STEADY_S
from kafka_shim.pipeline.generate.schedule import Schedule
from kafka_shim.pipeline.generate.trace_events import Event, Member, Partition

HEARTBEAT_S: Final = 4.8
"""Seconds between two heartbeats; with the random part added to it still below the coordinator's interval."""
SESSION_S: Final = 45.0


class Epochs(Schedule):
    """A group with epochs at work. `generation` is the group epoch."""

    def __init__(
        self, index: int, node: int, kind: Kind, fault: Fault, start: float, duration: float, seed: int
    ) -> None:
        super().__init__(index, node, fault, start, duration, seed)
        self.kind = kind
        self.cooperative, self.protocol = True, APIS[kind].assignor
        # More members than some groups have partitions, so that members share a partition.
        size = self.rng.randint(7, 8) if kind is Kind.SHARE else self.rng.randint(4, 5)
        self.size = 3 if fault is Fault.SLOW_TO_REVOKE else size
        self.static = self.static and kind is Kind.CONSUMER
        self.topics = list(dict.fromkeys(topic for topic, _ in self.partitions))
        if fault in (Fault.SLOW_TO_REVOKE, Fault.TWO_OWNERS):
            # Enough partitions that each member has to give some up for one more member.
            self.partitions = [(topic, number) for topic in self.topics for number in range(12)]
        self.offsets = {each: self.rng.randrange(1_000_000) for each in self.partitions}
        self.generation = 1 if kind is Kind.STREAMS else 0
        self.target_epoch = 0
        self.targets: dict[str, list[Partition]] = {}
        self.revoking_s: dict[str, float] = {}
        """By member id, seconds that a slow member takes to give partitions up."""

    def _new_member(self, number: int, instance_id: str | None = None) -> Member:
        member = super()._new_member(number, instance_id)
        # Members of such groups make their own ids.
        member.member_id = uuid_text(self.rng.getrandbits(128).to_bytes(16))
        return member

    def _generation_of(self, member: Member) -> int:
        return member.epoch

    def _heartbeat_body(
        self, member: Member, error: int, generation: int | None
    ) -> tuple[str, int, dict[str, Any], dict[str, Any]]:
        epoch = member.epoch if generation is None else generation
        asks = request(self.kind, self.group_id, member, epoch, self.topics, None)
        return *APIS[self.kind][:2], asks, answer(self.kind, member, epoch, error=error)

    def _heartbeat_with_news(
        self, at: float, member: Member, epoch: int, answered: int, *,
        owned: list[Partition] | None = None, assigned: list[Partition] | None = None,
    ) -> Event:  # fmt: skip
        """Build a heartbeat with news in the request or in the answer."""
        api = APIS[self.kind]
        asks = request(self.kind, self.group_id, member, epoch, self.topics, self._as_units(owned))
        answers = answer(self.kind, member, answered, self._as_units(assigned))
        return self._exchange(member, at + 0.0001, at - 0.0002, api.name, api.version, asks, answers)

    def _as_units(self, partitions: list[Partition] | None) -> list[Partition] | None:
        """Return partitions as the protocol names them: in a streams group, tasks of one subtopology per topic."""
        if partitions is None or self.kind is not Kind.STREAMS:
            return partitions
        return [(str(self.topics.index(topic)), number) for topic, number in partitions]

    def _by_topic(self, partitions: Iterable[Partition]) -> dict[str, list[int]]:
        return by_topic(self._as_units(list(partitions)) or ())

    # Stable operation, and reconciliation.

    def steady(self, until: float, silent: Member | None = None) -> Iterator[Event]:
        """Yield heartbeats and commits until then; `silent` sends nothing."""
        while self.now < until:
            if not self._is_at_rest():
                yield from self._step(until, silent)
                continue
            stop = min(self.now + STEADY_S, until)
            events: list[Event] = []
            for member in self.members:
                if member is silent:
                    continue
                member.next_heartbeat = max(member.next_heartbeat, self.now)
                member.next_commit = max(member.next_commit, self.now)
                while member.next_heartbeat < stop:
                    events.append(self.heartbeat(member, member.next_heartbeat))
                    member.last_heartbeat = member.next_heartbeat
                    member.next_heartbeat += HEARTBEAT_S + self.rng.uniform(0, 0.1)
                while member.next_commit < stop:
                    events += self._commit_progress(member, member.next_commit, member.owned)
                    member.next_commit += COMMIT_S + self.rng.uniform(0, 0.02)
            events.sort(key=itemgetter(0))
            yield from events
            # An answer may be later than its request: go on after the last one.
            self.now = stop + 0.001

    def _step(self, until: float, silent: Member | None) -> Iterator[Event]:
        """Yield the next heartbeat or commit of any member, or nothing until then."""
        awake = [member for member in self.members if member is not silent]
        member = min(awake, key=lambda each: min(each.next_heartbeat, each.next_commit), default=None)
        at = until if member is None else max(self.now, min(member.next_heartbeat, member.next_commit))
        if member is None or at >= until:
            self.now = until
            return
        if member.next_commit < member.next_heartbeat:
            yield from self._commit_progress(member, at, member.owned)
            member.next_commit = at + COMMIT_S + self.rng.uniform(0, 0.02)
        else:
            yield from self._heartbeat_and_reconcile(member, at)
        self.now = at + 0.001

    def _is_at_rest(self) -> bool:
        return self.target_epoch == self.generation and not any(
            each.epoch != self.generation or each.state != "STABLE" or each.acknowledges for each in self.members
        )

    def _commit_progress(self, member: Member, at: float, partitions: list[Partition]) -> Iterator[Event]:
        """Commit the progress of a member in these partitions; nothing in a share group, which has no committed
        offsets."""
        if self.kind is Kind.SHARE or not partitions:
            return
        for each in partitions:
            self.offsets[each] += int(self.pace * self.rng.uniform(0.5, 1.5)) + 1
        yield from self._commit(member, at, {each: self.offsets[each] for each in partitions})

    def _heartbeat_and_reconcile(self, member: Member, at: float) -> Iterator[Event]:
        """Yield one heartbeat of a member, and the events of the changes that it causes."""
        before, epoch = list(member.owned), member.epoch
        gives = bool(member.revoking) and at >= member.revoked_at
        owned = list(member.owned) if gives or member.acknowledges else None
        if gives:
            member.revoking = []
        member.acknowledges = False
        yield from self._compute_target(at, member)
        changed = self._advance(member, at)
        if changed:
            yield self._reconciliation(at, member)
        yield from self._state_change(at)
        assigned = member.owned if member.owned != before else None
        if owned is None and assigned is None and member.epoch == epoch:
            yield self.heartbeat(member, at + 0.0001)
        else:
            yield self._heartbeat_with_news(at, member, epoch, member.epoch, owned=owned, assigned=assigned)
        member.last_heartbeat = at
        member.next_heartbeat = at + HEARTBEAT_S + self.rng.uniform(0, 0.1)
        yield from self._react(member, at, before)

    def _react(self, member: Member, at: float, before: list[Partition]) -> Iterator[Event]:
        """Yield the reaction of the client to the answer.

        It gives up partitions, begins with new ones, and confirms both by its next heartbeat.
        """
        member.heartbeat_text = ""
        if member.revoking and not member.revoked_at > at:
            member.revoked_at = at + self.revoking_s.get(member.member_id, self.rng.uniform(0.01, 0.04))
            yield from self._commit_progress(member, at + 0.0005, member.revoking)
        gained = [each for each in member.owned if each not in before]
        if gained and self.kind is not Kind.SHARE:
            yield self._fetch_offsets(member, at + 0.0005)
            member.next_commit = min(member.next_commit, at + self.rng.uniform(0.5, 1.0))
        member.acknowledges = bool(gained) and self.kind is not Kind.SHARE
        if member.acknowledges:
            member.next_heartbeat = at + self.rng.uniform(0.01, 0.04)
        if member.revoking:
            member.next_heartbeat = min(member.next_heartbeat, max(at + 0.001, member.revoked_at))

    # The coordinator.

    def _begin(self, at: float, cause: str, trigger: str, broken: Fault = Fault.NONE) -> Event:
        """Begin a new group epoch."""
        self.generation += 1
        self.cause, self.trigger = cause, trigger
        if broken is Fault.NO_CAUSE:
            self.cause = ""
            self.add_fault("violation", invariant="I9", generation=self.generation, at=at)
        else:
            self.add_fault("rebalance", cause=cause, generation=self.generation, at=at)
        return self.event(
            at, "epoch", group=self.group_id, generation=self.generation, cause=self.cause, trigger=trigger
        )

    def _compute_target(self, at: float, member: Member) -> Iterator[Event]:
        """Compute the target assignment of the group epoch, at the first heartbeat after the bump."""
        if self.target_epoch == self.generation:
            return
        before = self.targets
        if self.kind is Kind.SHARE:
            owned = {each for target in before.values() for each in target}
            if self.cause in ("MEMBER_LEFT", "SESSION_EXPIRED") and any(each not in owned for each in self.partitions):
                # Kafka bumps the epoch once more when partitions have lost their last member.
                yield self._begin(at, "TOPIC_METADATA_CHANGED", member.member_id)
            self.targets = self._shares()
        else:
            self.targets = self._quotas()
        self.target_epoch = self.generation
        new = {each: target for each, target in self.targets.items() if target != before.get(each)}
        yield self.event(
            at, "target", group=self.group_id, generation=self.generation, assignor=self.protocol,
            assignments={each: self._by_topic(target) for each, target in new.items()},
        )  # fmt: skip

    def _shares(self) -> dict[str, list[Partition]]:
        """Give each partition a member, and each member a partition."""
        ids = [member.member_id for member in self.members]
        count, most = len(self.partitions), max(len(self.partitions), len(ids))
        target: dict[str, list[Partition]] = {each: [] for each in ids}
        for number in range(most):
            target[ids[number % len(ids)]].append(self.partitions[number % count])
        return target

    def _quotas(self) -> dict[str, list[Partition]]:
        """Balance the partitions, and move as few as that needs."""
        before = {member.member_id: self.targets.get(member.member_id, []) for member in self.members}
        least, extra = divmod(len(self.partitions), len(before))
        quotas: dict[str, list[Partition]] = {}
        for place, member_id in enumerate(sorted(before, key=lambda each: -len(before[each]))):
            quotas[member_id] = before[member_id][: least + (place < extra)]
        free = [each for each in self.partitions if not any(each in target for target in quotas.values())]
        for place, target in enumerate(quotas.values()):
            while len(target) < least + (place < extra):
                target.append(free.pop())
        return quotas

    def _advance(self, member: Member, at: float, broken: Fault = Fault.NONE) -> bool:
        """Bring a member as near to its target as the other members allow; return true if anything changed."""
        if member.revoking or (member.epoch == self.target_epoch and member.state == "STABLE"):
            return False
        target = self.targets[member.member_id]
        if self.kind is Kind.SHARE:
            member.owned, member.epoch = list(target), self.target_epoch
            return True
        before = member.epoch, member.state, list(member.owned)
        if member.epoch != self.target_epoch:
            member.revoking = [each for each in member.owned if each not in target]
            member.owned = [each for each in member.owned if each in target]
            if member.revoking:
                member.state = f"UNREVOKED_{self._units}"
                return True
            member.epoch = self.target_epoch
        owners = self._other_owners(member)
        missing = [each for each in target if each not in member.owned]
        if broken is Fault.TWO_OWNERS:
            topic, number = stolen = next(each for each in missing if each in owners)
            del owners[stolen]
            self.add_fault(
                "violation", invariant="I1", topic=topic, partition=number, generation=self.generation, at=at
            )
        member.owned += [each for each in missing if each not in owners]
        member.state = "STABLE" if len(member.owned) == len(target) else f"UNRELEASED_{self._units}"
        return before != (member.epoch, member.state, member.owned)

    @property
    def _units(self) -> str:
        return "TASKS" if self.kind is Kind.STREAMS else "PARTITIONS"

    def _other_owners(self, member: Member) -> dict[Partition, str]:
        """Return the owners of partitions that other members own or have not given up yet."""
        return {
            each: other.member_id
            for other in self.members
            if other is not member
            for each in (*other.owned, *other.revoking)
        }

    def _reconciliation(self, at: float, member: Member, epoch: int | None = None) -> Event:
        """Build the event of a member's current assignment."""
        owners = self._other_owners(member) if member.state.startswith("UNRELEASED") else {}
        waits_for = {owners[each] for each in self.targets[member.member_id] if each in owners} if owners else set()
        return self.event(
            at, "reconciliation", group=self.group_id, member_id=member.member_id,
            generation=member.epoch if epoch is None else epoch, state=member.state,
            assigned=self._by_topic(member.owned), revoking=self._by_topic(member.revoking),
            waits_for=sorted(waits_for),
        )  # fmt: skip

    def _state_change(self, at: float) -> Iterator[Event]:
        """Yield the new state of the group, if it changed."""
        if not self.members:
            state = "Empty"
        elif self.kind is Kind.SHARE:
            state = "Stable"
        elif self.target_epoch != self.generation:
            state = "Assigning"
        else:
            states = Counter((each.state, each.epoch) for each in self.members)
            state = "Stable" if list(states) == [("STABLE", self.generation)] else "Reconciling"
        if state != self.state:
            yield self._state(at, state, self.kind)

    # Members come and go.

    def join(self, member: Member, *, broken: Fault = Fault.NONE, **how: Any) -> Iterator[Event]:
        """Add a member; `broken` is the violation in its epoch."""
        at = self.now
        self.members.append(member)
        yield self._member_event(at, member, "added", self.kind)
        yield self._begin(at, "NEW_MEMBER", member.member_id, broken)
        yield from self._compute_target(at, member)
        self._advance(member, at, broken)
        yield self._reconciliation(at, member)
        yield from self._state_change(at)
        yield self._heartbeat_with_news(at, member, JOIN, member.epoch, owned=[], assigned=member.owned)
        member.last_heartbeat, member.next_commit = at, at + COMMIT_S
        member.next_heartbeat = at + HEARTBEAT_S
        yield from self._react(member, at, [])
        self.now = at + 0.001

    def _remove(self, member: Member, change: str, cause: str) -> Iterator[Event]:
        """Remove a member and begin an epoch."""
        self.members.remove(member)
        self.targets.pop(member.member_id)
        yield self._member_event(self.now, member, change, self.kind)
        yield self._begin(self.now, cause, member.member_id)
        yield from self._state_change(self.now)
