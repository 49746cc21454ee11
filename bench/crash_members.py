"""The load of the crash runs: members of one group that commit growing offsets, and a judge of their observations.

The judge detects lost commits, offsets that went back, and answers from a node that was no longer the coordinator.
Members speak Kafka's protocol on `apis/` and look for their coordinator like any client.
"""

from __future__ import annotations

import random
import struct
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import trio

from kafka_shim.apis.consumer_protocol import ConsumerProtocolSubscription
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header

GROUP = "crash"
TOPIC = "t"
SESSION_MS = 10_000
REBALANCE_MS = 3_000
PACE_S = 0.04
HEARTBEAT_S = 0.4
PROBE_S = 0.1
QUESTIONS = 60
"""Maximum number of unanswered requests to one node."""
ANSWER_S = 1.0
"""Seconds after which a member looks for its coordinator again."""

MOVED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}
REJOIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}

Address = tuple[str, int]


class NotCoordinator(Exception):
    """The node is not the coordinator: find it again."""


class Wire:
    """A connection with one request at a time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._correlation_id = 0
        self._received = bytearray()

    @classmethod
    async def open(cls, address: Address) -> Wire:
        with trio.fail_after(ANSWER_S):
            return cls(await trio.open_tcp_stream(*address))

    async def ask(self, version: int, request: Message, patience: float = ANSWER_S) -> Any:
        """Send a request and return the answer.

        Raises TooSlowError, trio's stream errors, and NotCoordinator on a closed stream.
        """
        key = next(key for key, api in APIS.items() if api.request is type(request))
        self._correlation_id += 1
        body = encode_request_header(key, version, self._correlation_id, "crash") + request.encode(version)
        with trio.fail_after(patience):
            await self._stream.send_all(struct.pack(">i", len(body)) + body)
            size = struct.unpack(">i", await self._exactly(4))[0]
            data = await self._exactly(size)
        _, offset = decode_response_header(data, key, version)
        return APIS[key].response.decode(data[offset:], version)

    async def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            data = await self._stream.receive_some()
            if not data:
                raise NotCoordinator
            self._received += data
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)


TROUBLE = (NotCoordinator, OSError, trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError)


class Answered(NamedTuple):
    """An answer of a node as the group's coordinator, and the Unix times of its request and itself."""

    address: Address
    sent_at: float
    answered: float


@dataclass
class Judge:
    """A record of all acknowledged commits and all reads, over all members and rounds, and the violations in it."""

    partitions: int
    sent: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    acknowledged: defaultdict[int, int] = field(default_factory=lambda: defaultdict(lambda: -1))
    seen: defaultdict[int, int] = field(default_factory=lambda: defaultdict(lambda: -1))
    commits: int = 0
    lost_commits: list[str] = field(default_factory=list)
    went_back: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    answers: list[Answered] = field(default_factory=list)
    assigned: dict[tuple[int, int], str] = field(default_factory=dict)
    changed: trio.Event = field(default_factory=trio.Event)
    quiet: bool = False
    """True while members must be silent; afterwards they look for their coordinator again."""

    def tell(self) -> None:
        """Wake all tasks that wait for a change."""
        self.changed.set()
        self.changed = trio.Event()

    def next_offset(self, partition: int) -> int:
        self.sent[partition] += 1
        return self.sent[partition]

    def floor(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the lowest offsets that a read sent now may see."""
        return dict(self.acknowledged), dict(self.seen)

    def read(self, partition: int, offset: int, floor: tuple[dict[int, int], dict[int, int]], reader: str) -> None:
        """Record a committed offset that a member fetched."""
        acknowledged, seen = floor
        if offset < acknowledged.get(partition, -1):
            self.lost_commits.append(
                f"{reader}: partition {partition} at {offset}, {acknowledged[partition]} was acknowledged"
            )
        elif offset < seen.get(partition, -1):
            self.went_back.append(f"{reader}: partition {partition} at {offset}, {seen[partition]} was read before")
        self.seen[partition] = max(self.seen[partition], offset)

    def assign(self, generation: int, partition: int, member_id: str) -> None:
        """Record that a member was assigned a partition in a generation."""
        other = self.assigned.setdefault((generation, partition), member_id)
        if other != member_id:
            self.twice.append(f"partition {partition} of generation {generation}: {other} and {member_id}")


async def find(addresses: Sequence[Address]) -> Address:
    """Return the group's coordinator, as the first of `addresses` to answer names it. Raises NotCoordinator."""
    for address in addresses:
        try:
            wire = await Wire.open(address)
            try:
                answer = await wire.ask(2, FindCoordinatorRequest(key=GROUP))
            finally:
                await wire.close()
        except TROUBLE:
            continue
        if answer.error_code == ErrorCode.NONE:
            return answer.host, answer.port
    raise NotCoordinator


def fetch_all(partitions: Sequence[int]) -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopic(TOPIC, list(partitions))])


class Member:
    """One member. `settled` is when its newest commit was acknowledged, in monotonic seconds."""

    def __init__(self, judge: Judge, addresses: Sequence[Address], number: int) -> None:
        self.generation = -1
        self.owned: list[int] = []
        self.settled = 0.0
        self.wants_rejoin = False
        self._judge = judge
        self._addresses = addresses
        self._name = f"member {number}"
        self._member_id = ""
        self._wire: Wire | None = None
        self._coordinator: Address = ("", 0)
        self._beat_at = 0.0

    async def run(self) -> None:
        """Be a member until cancelled."""
        while True:
            while self._judge.quiet:
                await self._judge.changed.wait()
            try:
                self._coordinator = await find(random.sample(self._addresses, len(self._addresses)))
                self._wire = await Wire.open(self._coordinator)
                while True:
                    if self._judge.quiet:
                        raise NotCoordinator
                    if self.generation < 0 or self.wants_rejoin:
                        await self._join()
                    await self._commit()
                    await trio.sleep(PACE_S * random.uniform(0.5, 1.5))
                    if time.monotonic() >= self._beat_at:
                        await self._heartbeat()
            except TROUBLE:
                await trio.sleep(0.05)
            finally:
                if self._wire is not None:
                    await self._wire.close()
                    self._wire = None

    async def _ask(self, version: int, request: Message, patience: float = ANSWER_S) -> Any:
        assert self._wire is not None
        sent_at = time.time()
        answer = await self._wire.ask(version, request, patience)
        error = _error_of(answer)
        if error in MOVED:
            raise NotCoordinator
        # A coordinator answers heartbeats with 0 even while it loads the partition.
        if error == ErrorCode.NONE and not isinstance(request, HeartbeatRequest):
            self._judge.answers.append(Answered(self._coordinator, sent_at, time.time()))
        return answer

    async def _join(self) -> None:
        self.wants_rejoin = False
        self.generation = -1
        while self.generation < 0:
            joined = await self._ask(
                5,
                JoinGroupRequest(
                    group_id=GROUP,
                    session_timeout_ms=SESSION_MS,
                    rebalance_timeout_ms=REBALANCE_MS,
                    member_id=self._member_id,
                    protocol_type="consumer",
                    protocols=[
                        JoinGroupRequestProtocol(
                            "range", b"\0\0" + ConsumerProtocolSubscription(topics=[TOPIC]).encode(0)
                        )
                    ],
                ),
                REBALANCE_MS / 1000 + 3,
            )
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = joined.member_id
            elif joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            elif joined.error_code == ErrorCode.NONE:
                self._member_id = joined.member_id
                await self._sync(joined.generation_id, [each.member_id for each in joined.members])

    async def _sync(self, generation: int, everybody: list[str]) -> None:
        shares: dict[str, list[int]] = {member_id: [] for member_id in everybody}
        for partition in range(self._judge.partitions if everybody else 0):
            shares[everybody[partition % len(everybody)]].append(partition)
        synced = await self._ask(
            3,
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=generation,
                member_id=self._member_id,
                assignments=[
                    SyncGroupRequestAssignment(member_id, struct.pack(f">{len(share)}i", *share))
                    for member_id, share in shares.items()
                ],
            ),
            REBALANCE_MS / 1000 + 3,
        )
        if synced.error_code:
            self._refused(synced.error_code)
            return
        self.owned = list(struct.unpack(f">{len(synced.assignment) // 4}i", synced.assignment))
        for partition in self.owned:
            self._judge.assign(generation, partition, self._member_id)
        floor = self._judge.floor()
        fetched = await self._ask(5, fetch_all(self.owned))
        for each in fetched.topics[0].partitions:
            self._judge.read(each.partition_index, each.committed_offset, floor, self._name)
        self.generation = generation
        self._beat_at = time.monotonic() + HEARTBEAT_S

    async def _commit(self) -> None:
        if self.generation < 0:
            return
        offsets = {partition: self._judge.next_offset(partition) for partition in self.owned}
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self._member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        OffsetCommitRequestPartition(partition, offset, committed_metadata="")
                        for partition, offset in offsets.items()
                    ],
                )
            ],
        )
        answer = await self._ask(7, request)
        error = _error_of(answer)
        if error:
            self._refused(error)
            return
        judge = self._judge
        for partition, offset in offsets.items():
            judge.acknowledged[partition] = max(judge.acknowledged[partition], offset)
        judge.commits += len(offsets)
        self.settled = time.monotonic()
        judge.tell()

    async def _heartbeat(self) -> None:
        if self.generation >= 0:
            self._beat_at = time.monotonic() + HEARTBEAT_S
            request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self._member_id)
            if error := (await self._ask(3, request)).error_code:
                self._refused(error)

    def _refused(self, error: int) -> None:
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if error not in REJOIN:
            raise AssertionError(f"{self._name} was answered {ErrorCode(error).name}")
        self.generation = -1


class Prober:
    """A client that fetches the group's offsets from one node again and again, coordinator or not.

    It opens a connection for each request and does not wait for earlier answers. So a paused node finds many requests
    when it wakes, some of them sent after its lease went to another node.
    """

    def __init__(self, judge: Judge, address: Address) -> None:
        self.answered = 0.0
        """When the node last answered, in monotonic seconds."""
        self._judge = judge
        self._address = address
        self._questions = trio.CapacityLimiter(QUESTIONS)

    async def run(self) -> None:
        """Send requests until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._questions.acquire_on_behalf_of(question := object())
                nursery.start_soon(self._ask, question)
                await trio.sleep(PROBE_S)

    async def _ask(self, question: object) -> None:
        judge = self._judge
        try:
            wire = await Wire.open(self._address)
            try:
                acknowledged, _ = judge.floor()
                sent_at = time.time()
                fetched = await wire.ask(5, fetch_all(range(judge.partitions)), 60)
            finally:
                await wire.close()
        except TROUBLE:
            return
        finally:
            self._questions.release_on_behalf_of(question)
        self.answered = time.monotonic()
        judge.tell()
        if fetched.error_code == ErrorCode.NONE:
            judge.answers.append(Answered(self._address, sent_at, time.time()))
            for each in fetched.topics[0].partitions:
                if each.committed_offset < acknowledged.get(each.partition_index, -1):
                    judge.stale.append(
                        f"{self._address} answered {each.committed_offset} for partition {each.partition_index}, "
                        f"{acknowledged[each.partition_index]} was acknowledged before the request"
                    )


def _error_of(answer: Any) -> int:
    """Return the error of an answer: that of the whole, or the first of any partition."""
    if hasattr(answer, "error_code"):
        return int(answer.error_code)
    return next((p.error_code for topic in answer.topics for p in topic.partitions if p.error_code), 0)
