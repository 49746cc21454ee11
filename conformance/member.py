"""A scripted member of a classic group: each call of the case sends one request; it remembers the answers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.contact import Contact
from kafka_shim.conformance.verdict import NotServed
from kafka_shim.conformance.wire import Connection

Protocols = tuple[tuple[str, bytes], ...]


def subscription(*topics: str, user_data: bytes | None = None) -> bytes:
    """Encode the metadata of a consumer: a version 0 ConsumerProtocolSubscription."""
    data = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        data += struct.pack(">h", len(topic.encode())) + topic.encode()
    return data + (struct.pack(">i", -1) if user_data is None else struct.pack(">i", len(user_data)) + user_data)


def user_metadata(text: bytes) -> bytes:
    """Encode metadata with `text` in it: valid for a coordinator, and distinct for the case."""
    return subscription(user_data=text)


RANGE: Final[Protocols] = (("range", user_metadata(b"what range needs")),)


class Member:
    """One member of one group. `id` and `generation` come from the last successful answers.

    Requests that the coordinator may park go over `wire`. While one is parked, other requests go over a second
    connection, as in a client's heartbeat thread.
    """

    def __init__(
        self,
        contact: Contact,
        name: str,
        group: str,
        *,
        instance_id: str | None,
        protocols: Protocols,
        protocol_type: str,
        session_timeout: int,
        rebalance_timeout: int,
    ) -> None:
        self.name = name
        self.group = group
        self.instance_id = instance_id
        self.protocols = protocols
        self.protocol_type = protocol_type
        self.session_timeout = session_timeout
        self.rebalance_timeout = rebalance_timeout
        self.id = ""
        self.generation = -1
        self.leader = ""
        self.protocol: str | None = None
        self.wire: Connection = contact.connect(name, client_id=name, group=group)
        self._contact = contact
        self._aside: Connection | None = None
        self._early_answer: JoinGroupResponse | None = None

    @property
    def is_joined(self) -> bool:
        """True if its answers so far put it in a generation."""
        return self.generation >= 0

    @property
    def is_leader(self) -> bool:
        return self.is_joined and self.leader == self.id

    @property
    def is_waiting(self) -> bool:
        """True if an answer is due on `wire`."""
        return self.wire.pending > 0 or self._early_answer is not None

    def request(self, message: Message, version: int | None = None) -> Any:
        """Send a request and wait for the answer, beside a parked request if there is one."""
        wire = self.wire
        if self.is_waiting:
            if self._aside is None:
                self._aside = self._contact.connect(f"{self.name}'", client_id=self.name, group=self.group)
            wire = self._aside
        return wire.call(message, self._contact.version_of(message) if version is None else version)

    def join_request(self, version: int | None = None, **changes: Any) -> JoinGroupRequest:
        """Return the JoinGroup of this member; `changes` replace fields."""
        version = self._contact.version_of("JoinGroup") if version is None else version
        request = JoinGroupRequest(
            self.group,
            self.session_timeout,
            self.rebalance_timeout,
            self.id,
            self.instance_id if version >= 5 else None,
            self.protocol_type,
            [JoinGroupRequestProtocol(name, metadata) for name, metadata in self.protocols],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def send_join(self, version: int | None = None, **changes: Any) -> None:
        """Send JoinGroup; on the first join from v4, adopt the member id of the coordinator and send again.

        A coordinator that does not require an id is not corrected here: `join/first/2` is the case for that.
        """
        version = self._contact.version_of("JoinGroup") if version is None else version
        self.wire.send(self.join_request(version, **changes), version)
        # A coordinator that assigns ids answers soon; another one may park the request.
        patience = self._contact.limits.patience if self._contact.peer.asks_for_ids else 1.0
        if version >= 4 and not self.id and self.instance_id is None and self.wire.answers_within(patience):
            answer = self.wire.receive()
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                self._early_answer = answer
                return
            self.id = answer.member_id
            self.wire.send(self.join_request(version, **changes), version)

    def receive_join(self, *, within: float | None = None) -> JoinGroupResponse:
        """Receive the answer to `send_join`; remember it if it succeeds."""
        answer = self._early_answer
        self._early_answer = None
        if answer is None:
            answer = self.wire.receive(within=within)
        assert answer is not None
        if answer.error_code == 0:
            self.id, self.generation = answer.member_id, answer.generation_id
            self.leader, self.protocol = answer.leader, answer.protocol_name
        return answer

    def join(self, version: int | None = None, **changes: Any) -> JoinGroupResponse:
        """Join and wait for the round to end; raise `Failed` unless it succeeds."""
        self.send_join(version, **changes)
        answer = self.receive_join()
        self._contact.expect(answer, error_code=0)
        return answer

    def sync_request(self, assignments: Mapping[Member, bytes] | None = None, **changes: Any) -> SyncGroupRequest:
        """Return the SyncGroup of this member; `changes` replace fields."""
        version = self._contact.version_of("SyncGroup")
        request = SyncGroupRequest(
            self.group,
            self.generation,
            self.id,
            self.instance_id if version >= 3 else None,
            self.protocol_type,
            self.protocols[0][0] if self.protocol is None else self.protocol,
            [SyncGroupRequestAssignment(member.id, data) for member, data in (assignments or {}).items()],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def send_sync(self, assignments: Mapping[Member, bytes] | None = None, **changes: Any) -> None:
        """Send SyncGroup without waiting."""
        request = self.sync_request(assignments, **changes)
        self.wire.send(request, self._contact.version_of(request))

    def receive_sync(self, *, within: float | None = None) -> SyncGroupResponse:
        """Receive the answer to `send_sync`."""
        answer: SyncGroupResponse = self.wire.receive(within=within)
        return answer

    def sync(self, assignments: Mapping[Member, bytes] | None = None, **changes: Any) -> SyncGroupResponse:
        """Send SyncGroup and wait for the answer."""
        answer: SyncGroupResponse = self.request(self.sync_request(assignments, **changes))
        return answer

    def heartbeat(self, **changes: Any) -> int:
        """Send Heartbeat; return the error code."""
        version = self._contact.version_of("Heartbeat")
        request = HeartbeatRequest(self.group, self.generation, self.id, self.instance_id if version >= 3 else None)
        for name, value in changes.items():
            setattr(request, name, value)
        code: int = self.request(request).error_code
        return code

    def leave(self) -> LeaveGroupResponse:
        """Send LeaveGroup for this member alone, by its member id."""
        version = self._contact.version_of("LeaveGroup")
        if version <= 2:
            request = LeaveGroupRequest(self.group, self.id)
        else:
            request = LeaveGroupRequest(self.group, members=[MemberIdentity(self.id, self.instance_id)])
        answer: LeaveGroupResponse = self.request(request)
        return answer

    def commit(self, topic: str, offsets: Mapping[int, int], *, metadata: str = "", **changes: Any) -> dict[int, int]:
        """Send OffsetCommit of partitions to offsets; return the error code of each partition."""
        version = self._contact.version_of("OffsetCommit")
        request = OffsetCommitRequest(
            self.group,
            self.generation,
            self.id,
            self.instance_id if version >= 7 else None,
            topics=[
                OffsetCommitRequestTopic(
                    topic,
                    self._contact.topic_id(topic) if version >= 10 else bytes(16),
                    [
                        OffsetCommitRequestPartition(partition, offset, committed_metadata=metadata)
                        for partition, offset in offsets.items()
                    ],
                )
            ],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        answer = self.request(request)
        codes = {each.partition_index: each.error_code for topic in answer.topics for each in topic.partitions}
        if set(codes.values()) == {ErrorCode.UNSUPPORTED_VERSION}:
            raise NotServed(f"OffsetCommit v{version} is answered UNSUPPORTED_VERSION (35)")
        return codes
