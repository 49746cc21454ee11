"""A coordinator without sockets, stores or clocks: requests go to the rules, time is a number."""

from itertools import count
from types import SimpleNamespace
from typing import Any

from kafka_shim.apis import offset_commit, offset_delete, offset_fetch
from kafka_shim.apis.consumer_protocol import ConsumerProtocolSubscription, subscription_to_bytes
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.leave_group import error as leave_refused
from kafka_shim.apis.releases import rules_of
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.sync_group import error as sync_refused
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.interface import PARKED, Client
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.shard import NodeParts
from kafka_shim.groups.timers import Timers
from kafka_shim.persistence.memory import MemoryStore
from tests.handling import Call, handle

CLIENT = Client("client", "/127.0.0.1")
START_MS = 1_700_000_000_000


class Topics:
    """Topics to check commits against: names with their number of partitions; an id is the name with padding."""

    def __init__(self, **partitions: int) -> None:
        self.partitions = partitions

    def has(self, topic: str, partition: int) -> bool:
        return 0 <= partition < self.partitions.get(topic, 0)

    def partitions_of(self, topic: str) -> int:
        return self.partitions.get(topic, 0)

    def topic_id(self, topic: str) -> bytes | None:
        return topic_id(topic) if topic in self.partitions else None

    def topic_name(self, topic_id: bytes) -> str | None:
        name = topic_id.rstrip(b"\0").decode()
        return name if name in self.partitions else None


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class Coordinator:
    """One node with one partition of `__consumer_offsets`, on a memory store that outlives `restart`."""

    def __init__(self, **settings: int) -> None:
        self.config = GroupConfig(
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=0,
            **settings,  # type: ignore[arg-type]
        )
        self.store = MemoryStore()
        # From 3.9 on version 0 of the requests for offsets is refused.
        self.broker = SimpleNamespace(topics=Topics(foo=3, bar=3, baz=1), rules=rules_of("2.8"))
        self.now = 0.0
        self.tokens = count(1)
        self.restart()

    def restart(self) -> None:
        """A new process on the same store."""
        ids = count(1)
        self.outbox = Outbox()
        self.outbox.listening = self.outbox.tracing = True
        parts = NodeParts(
            config=self.config,
            outbox=self.outbox,
            timers=Timers(self.outbox),
            new_id=lambda: f"id-{next(ids)}",
            wall_offset=START_MS / 1000,
        )
        self.service = GroupService(0, parts, KINDS, lambda key, kind: (0, 0, "localhost", 9092))
        self.service.load(0, self.store.load(0), self.now)
        self.settle()

    def settle(self) -> list[tuple[object, Any, int]]:
        """Make records durable; returns the replies released."""
        self.store.write(self.outbox.records)
        self.outbox.records.clear()
        replies = list(self.outbox.replies)
        self.outbox.replies.clear()
        return replies

    def advance(self, seconds: float) -> None:
        """Let time pass, firing every timer at its time."""
        end = self.now + seconds
        while (deadline := self.service.next_deadline()) <= end:
            self.now = max(self.now, deadline)
            self.service.fire(self.now)
            self.settle()
        self.now = end

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.outbox.events if event["event"] == kind]

    # Members

    def join(
        self, group: str, *topics: str, protocol_type: str = "consumer", metadata: bytes | None = None,
        member_id: str = "", instance: str | None = None, session_ms: int = 10_000,
    ) -> Any:  # fmt: skip
        """Send a JoinGroup and fire the timers due now; return the answer, or None while it is parked."""
        if metadata is None:
            metadata = subscription_to_bytes(ConsumerProtocolSubscription(list(topics)), 0)
        request = JoinGroupRequest(
            group, session_ms, 60_000, member_id, instance, protocol_type, [JoinGroupRequestProtocol("range", metadata)]
        )
        exchange = next(self.tokens)
        answer = self.service.ask(
            request, join_refused, CLIENT, exchange, self.now, member_id_required=False, skip_assignment_supported=True
        )
        if answer is not PARKED:
            self.settle()
            return answer
        self.service.fire(self.now)
        return {key: reply for key, reply, _ in self.settle()}.get(exchange)

    def stable(self, group: str, *topics: str, **how: Any) -> tuple[str, int]:
        """Make a group of one member Stable; its member id and generation."""
        joined = self.join(group, *topics, **how)
        assert joined is not None
        assert joined.error_code == 0
        request = SyncGroupRequest(
            group,
            joined.generation_id,
            joined.member_id,
            assignments=[SyncGroupRequestAssignment(joined.member_id, b"")],
        )
        answer = self.service.ask(request, sync_refused, next(self.tokens), self.now)
        replies = self.settle()
        if answer is PARKED:
            answer = replies[-1][1]
        assert answer.error_code == 0  # type: ignore[union-attr]
        return joined.member_id, joined.generation_id

    def leave(self, group: str, member_id: str) -> None:
        self.service.ask(LeaveGroupRequest(group, members=[MemberIdentity(member_id)]), leave_refused, self.now)
        self.settle()

    # Requests, as the server hands them on

    def call(self, version: int) -> Call:
        return Call(version, CLIENT, self.now, self.service, self.broker)

    def commit(
        self, group: str, offsets: dict[tuple[str, int], int], *, member: str = "", generation: int = -1,
        instance: str | None = None, metadata: str | None = "", retention_ms: int = -1, version: int = 9,
    ) -> dict[tuple[str, int], int]:  # fmt: skip
        """Commit; the error of each partition."""
        topics: dict[str, list[offset_commit.OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                offset_commit.OffsetCommitRequestPartition(partition, offset, committed_metadata=metadata)
            )
        by_id = version >= 10
        request = offset_commit.OffsetCommitRequest(
            group,
            generation,
            member,
            instance,
            retention_ms,
            [
                offset_commit.OffsetCommitRequestTopic(
                    "" if by_id else name, topic_id(name) if by_id else bytes(16), each
                )
                for name, each in topics.items()
            ],
        )
        response = handle(request, self.call(version))
        self.settle()
        return {
            (topic.topic_id.rstrip(b"\0").decode() if by_id else topic.name, each.partition_index): each.error_code
            for topic in response.topics
            for each in topic.partitions
        }

    def fetch(self, group: str, *partitions: tuple[str, int], version: int = 9) -> dict[tuple[str, int], int]:
        """The offsets of these partitions, of all if none are named; no error may come."""
        response = self.fetched(group, *partitions, version=version)
        assert response.groups[0].error_code == 0
        found = {}
        for topic in response.groups[0].topics:
            name = topic.topic_id.rstrip(b"\0").decode() if version >= 10 else topic.name
            for each in topic.partitions:
                assert each.error_code == 0
                found[name, each.partition_index] = each.committed_offset
        return found

    def fetched(self, group: str, *partitions: tuple[str, int], version: int = 9) -> offset_fetch.OffsetFetchResponse:
        by_id = version >= 10
        topics = [
            offset_fetch.OffsetFetchRequestTopics(
                "" if by_id else topic, topic_id(topic) if by_id else bytes(16), [partition]
            )
            for topic, partition in partitions
        ]
        row = offset_fetch.OffsetFetchRequestGroup(group, None, -1, topics or None)
        return handle(offset_fetch.OffsetFetchRequest(groups=[row]), self.call(version))

    def delete_offsets(self, group: str, *partitions: tuple[str, int]) -> offset_delete.OffsetDeleteResponse:
        request = offset_delete.OffsetDeleteRequest(
            group,
            [
                offset_delete.OffsetDeleteRequestTopic(topic, [offset_delete.OffsetDeleteRequestPartition(partition)])
                for topic, partition in partitions
            ],
        )
        response = handle(request, self.call(0))
        self.settle()
        return response
