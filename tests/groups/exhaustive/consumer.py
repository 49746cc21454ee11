"""Consumer groups (KIP-848): members, a static one and its successor, that obey or are slow, lose answers and leave.

Checked in every state: each partition has one owner at most, and a client uses only partitions that the coordinator
counts as its own (I1); epochs are in order (I2); the records give the same group (I5); each timer's member is present
(I10). Without further events, the members share every partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.epochs.member import LEAVE_STATIC
from tests.groups.consumer.context import Consumer
from tests.groups.consumer.safety import check, check_records
from tests.groups.context import GROUP
from tests.groups.exhaustive.world import TOPIC, Epochs, World, ordered

STATIC = "rs"
"""Clients with one instance id."""
LEGAL = {E.NONE, E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.FENCED_INSTANCE_ID, E.UNRELEASED_INSTANCE_ID}
LEGAL |= {E.GROUP_ID_NOT_FOUND}


class Client(Consumer):
    """It says everything again after an answer that got lost, as Kafka's client does."""

    legal = frozenset(LEGAL)
    unsure = False

    def go_on(self) -> None:
        """Take the client's next step when no event disturbs it."""
        self.act("obey" if self.epoch > 0 else "join")

    def act(self, what: str) -> None:
        lost = what.endswith("lost")
        if what == "leave" or what == "leave for a while":
            self.leave(-1 if what == "leave" else LEAVE_STATIC)
            error: int = E.UNKNOWN_MEMBER_ID
        elif what.startswith("join"):
            error = self.join(lost=lost).error_code
        else:
            if what.startswith("obey"):
                self.owned = set(self.assigned)
            if self.unsure:
                error = self.full(lost=lost).error_code
            elif what.startswith("obey"):
                error = self.obey(lost=lost).error_code
            else:
                error = self.heartbeat(lost=lost).error_code
        assert error in self.legal, error
        self.unsure = lost
        if error and not lost:
            self.epoch, self.owned, self.assigned = 0, set(), set()


class ConsumerWorld(World):
    def make_client(self, name: str) -> Client:
        instance_id = "i" if name in STATIC else None
        return Client(self.node, name, [TOPIC], instance_id=instance_id, rebalance_timeout_ms=1)

    def key(self) -> object:
        return self.clients_key(self.consumer_group), self.group_key(), self.shared_key()

    @property
    def consumer_group(self) -> ConsumerGroup | None:
        group = self.node.service.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    def epochs(self, group: ConsumerGroup) -> Epochs:
        members = group.members.values()
        return Epochs(
            group.group_epoch, {epoch for member in members for epoch in (member.epoch, member.previous_epoch)}
        )

    def clients_key(self, group: ConsumerGroup | None) -> object:
        epochs = Epochs(0) if group is None else self.epochs(group)
        return [
            (epochs.of_client(each.epoch), sorted(each.owned), sorted(each.assigned), each.unsure)
            for each in self.consumers
        ]

    @property
    def consumers(self) -> list[Client]:
        return [each for each in self.clients if isinstance(each, Client)]

    def group_key(self) -> object:
        group = self.consumer_group
        if group is None:
            return None
        epochs, ids = self.epochs(group), self.ids()
        members = [
            (
                ids[each.member_id],
                each.instance_id or "",
                epochs.of(each.epoch),
                epochs.of(each.previous_epoch),
                each.state.value,
                ordered(each.assigned),
                ordered(each.pending_revocation),
                each.classic is not None,
                epochs.of(group.rebalance_epochs.get(each.member_id, 0)),
            )
            for each in group.members.values()
        ]
        return (
            sorted(members),
            sorted((ids[member_id], ordered(target)) for member_id, target in group.targets.items()),
            epochs.of(group.target_epoch),
            group.metadata_stale,
            group.metadata_hash,
            sorted((timer.kind.value, ids[timer.member_id]) for timer in self.timers()),
        )

    def ids(self) -> Mapping[str, Any]:
        """Member ids as they are in keys."""
        group = self.consumer_group
        assert group is not None
        return {member_id: member_id for member_id in (*group.members, "")}

    def steps_of(self, client: Client) -> Iterable[str]:
        yield "join"
        yield "join, answer lost"
        if client.epoch > 0:
            yield "obey"
            yield "obey, answer lost"
            yield "heartbeat"
            yield "heartbeat, answer lost"
            yield "leave"
            if client.instance_id is not None:
                yield "leave for a while"

    def act(self, client: Client, what: str) -> None:
        client.act(what)

    def check(self) -> None:
        check(self.node, self.clients)
        check_records(self.node)

    def settle(self) -> None:
        group = self.consumer_group
        if group is None or not group.members:
            return
        present: list[Client] = [each for each in self.clients if each.member_id in group.members]
        for client in present:
            if client.instance_id is None:
                client.act("join")

        def go_on() -> None:
            for client in present:
                client.go_on()
                self.release(client)

        self.until_quiet(self.key, go_on)
        owned = sorted(each for client in present for each in client.owned)
        assert owned == [(TOPIC, number) for number in range(self.node.topics.partitions_of(TOPIC))]

    def release(self, client: Client) -> None:
        """A static member that has lost its place gets it back when its session ends."""
        group = self.consumer_group
        holder = None if group is None else group.static_member(client.instance_id)
        if client.epoch == 0 and holder is not None:
            self.fire(
                next(each for each in self.timers() if each.member_id == holder.member_id and each.kind == "session")
            )
