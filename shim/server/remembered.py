"""Requests that a client sends again and again, known by their bytes: a shortcut to an exchange.

Decides whether bytes are a remembered request. They are if nothing differs but the correlation id and some numbers: in
a commit the partitions, offsets and leader epochs, in a fetch the epoch of its session. Where these stand is found by
encoding the request once more with every bit of them turned over. A shortcut asks the rule that the table of requests
would have asked; what it saves is splitting, decoding and encoding. It does not know what a heartbeat, a fetch or a
commit does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_shim.apis.fetch import FetchRequest
from kafka_shim.apis.heartbeat import HeartbeatResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from kafka_shim.apis.offset_commit import error as commit_answer
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame as framed
from kafka_shim.apis.wire.types import Fixed
from kafka_shim.groups.commits import Commit
from kafka_shim.groups.consumer.steady import RepeatedHeartbeat, says_nothing_new
from kafka_shim.groups.event_templates import Template
from kafka_shim.groups.interface import Client
from kafka_shim.persistence.records import OffsetCommitKey
from kafka_shim.server.exchange import Conversation, Exchange, Step
from kafka_shim.server.handlers import all_exist
from kafka_shim.server.trace import template_of

INITIAL_EPOCH: Final = 0
"""The session epoch of a fetch that asks for a session; -1 is that of one that asks for none."""
MAX_REQUESTS: Final = 16
MAX_BYTES: Final = 16 * 1024
"""How many requests of a session are remembered, and how long they may be together."""
MAX_SHAPES: Final = 1024
"""How many shapes of commits a node remembers; all its connections share them."""
MAX_COMMIT_BYTES: Final = 4096
"""Commits of so many bytes, 200 partitions or so, are remembered: what is kept is several times as much."""

_number: Final = Struct(">i").unpack
_correlation_number: Final = Struct(">8xi").unpack_from
_held, _sent = Step.HELD, Step.SENT


class RememberedRequest(Protocol):
    """A remembered request of a connection."""

    def serve(self, session: RememberingSession, data: bytes, now: float) -> bool:
        """Serve `data`, which begins with the same eight bytes, if it is the remembered request, whole and alone;
        False, and nothing done, if it is not."""


class RememberingSession(Conversation, Protocol):
    """A connection whose requests are remembered, by their first eight bytes; `session.py` has it.

    `last_commit` says who committed last: whoever commits again will do so again.
    """

    remembered: dict[bytes, RememberedRequest]
    last_commit: object
    client: Client

    def begin(self, exchange: Exchange) -> None: ...

    def block(self) -> None: ...


def remember(session: RememberingSession, exchange: Exchange, frame: bytes, body: int) -> None:
    """Remember the request of this exchange if that will save something. `body` is where its body begins in `frame`."""
    make = _MAKERS.get(exchange.endpoint.key)
    if make is None or len(frame) >= MAX_BYTES or session.closed:
        return
    data = framed(frame)
    made = make(session, exchange, data, data[: body + 4])
    if made is not None:
        head = _shared(data[:8])
        remembered = session.remembered
        if head not in remembered:
            # What a remembered request begins with says how long it is.
            together = len(data) + sum(int.from_bytes(each[:4]) for each in remembered)
            if not remembered or len(remembered) == MAX_REQUESTS or together > MAX_BYTES:
                remembered = session.remembered = {}
        remembered[head] = made


@lru_cache(maxsize=1024)
def _shared(data: bytes) -> bytes:
    """The same few bytes, as one object for all connections: it stays in a cache of the processor."""
    return data


# Bytes


class Layout(NamedTuple):
    """Where numbers stand in a frame. `fixed` are its other bytes but the correlation id, as `mask` cuts them out."""

    size: int
    mask: int
    fixed: int
    numbers: Callable[[bytes], tuple[Any, ...]]


def layout_of(data: bytes, turned: bytes, codes: str) -> Layout | None:
    """The layout of the frame `data`. In `turned` every bit of the numbers is turned over, and no other; side by side,
    in the order of `codes`, they stand in one or more places."""
    places = int.from_bytes(data) ^ int.from_bytes(turned)
    width = Struct(">" + codes).size
    layout, position = ">", 0
    for run in re.finditer(b"\xff+", places.to_bytes(len(data))):
        if run.end() - run.start() != width:
            return None
        layout += f"{run.start() - position}x{codes}"
        position = run.end()
    correlation_id = 0xFFFFFFFF << (len(data) - 12) * 8
    mask = ((1 << len(data) * 8) - 1) ^ places ^ correlation_id
    return Layout(len(data), mask, int.from_bytes(data) & mask, _unpacker(f"{layout}{len(data) - position}x"))


@lru_cache(maxsize=256)
def _unpacker(layout: str) -> Callable[[bytes], tuple[Any, ...]]:
    return Struct(layout).unpack


def _turn_over(value: Any, names: Sequence[str]) -> None:
    for name in names:
        setattr(value, name, ~getattr(value, name))


# Heartbeats


class RememberedHeartbeat:
    """A Heartbeat. Its answers are constants, since they say an error code and nothing else."""

    __slots__ = ("_durability", "_endpoint", "_heartbeat", "_outbox", "_request", "_rest", "_traced")

    def __init__(self, exchange: Exchange, data: bytes) -> None:
        node = exchange.session.node
        request = exchange.request
        self._endpoint = exchange.endpoint
        self._request = request
        self._rest = data[12:]
        self._outbox = node.outbox
        self._durability = node.durability
        self._heartbeat = node.groups.heartbeat
        self._traced: tuple[int, Template] | None = None

    def serve(self, session: RememberingSession, data: bytes, now: float) -> bool:
        if data[12:] != self._rest:
            return False
        endpoint = self._endpoint
        endpoint.calls += 1
        outbox = self._outbox
        outbox.begin()
        request, heartbeat = self._request, self._heartbeat
        code = heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id, now)
        if outbox.required_batch > self._durability.durable:
            exchange = Exchange(session, endpoint, self._request, session.client, data[8:12])
            exchange.arrived = now
            exchange.answer(HeartbeatResponse(error_code=code), outbox.required_batch, now)
            session.begin(exchange)
            return True
        answer = endpoint.constants.get(code)
        if answer is None:
            answer = endpoint.constants[code] = endpoint.split_around_correlation_id(HeartbeatResponse(error_code=code))
        if outbox.tracing:
            traced = self._traced
            if traced is None or traced[0] != code:
                exchange = Exchange(session, endpoint, self._request, session.client, data[8:12])
                exchange.response = HeartbeatResponse(0, code)
                traced = self._traced = (code, template_of(exchange))
            outbox.events.append((traced[1], _correlation_number(data), now))
        before, after = answer
        if not session.transport.send(before + data[8:12] + after):
            session.block()
        return True


def _heartbeat(session: RememberingSession, exchange: Exchange, data: bytes, head: bytes) -> RememberedRequest | None:
    return RememberedHeartbeat(exchange, data)


class RememberedConsumerHeartbeat(RepeatedHeartbeat):
    """A ConsumerGroupHeartbeat that says nothing new. One that is to change something is served as any other.

    It is what the rule keeps of it too: there is one for each member, and one object is in a cache sooner than two.
    """

    __slots__ = (
        "_after",
        "_before",
        "_durability",
        "_endpoint",
        "_features_epoch",
        "_interval_ms",
        "_outbox",
        "_rest",
        "_settings",
    )

    def __init__(self, exchange: Exchange, data: bytes) -> None:
        node = exchange.session.node
        super().__init__(node.groups.groups, exchange.request, exchange.client)
        self._settings = node.broker.topics.settings
        self._features_epoch = self._settings.features_epoch
        self._endpoint = exchange.endpoint
        self._rest = data[12:]
        self._outbox = node.outbox
        self._durability = node.durability
        self._interval_ms = 0
        self._before = self._after = b""

    def serve(self, session: RememberingSession, data: bytes, now: float) -> bool:
        outbox = self._outbox
        if (
            data[12:] != self._rest
            or outbox.tracing
            # Somebody may have turned the protocol off.
            or self._settings.features_epoch != self._features_epoch
        ):
            return False
        outbox.begin()
        interval_ms = self.again(now)
        if interval_ms is None or outbox.required_batch > self._durability.durable:
            return False
        endpoint = self._endpoint
        endpoint.calls += 1
        if interval_ms != self._interval_ms:
            request = self._request
            response = ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=interval_ms
            )
            self._interval_ms = interval_ms
            before, self._after = endpoint.split_around_correlation_id(response)
            self._before = _shared(before)
        if not session.transport.send(self._before + data[8:12] + self._after):
            session.block()
        return True


def _consumer_heartbeat(
    session: RememberingSession, exchange: Exchange, data: bytes, head: bytes
) -> RememberedRequest | None:
    if not exchange.session.node.broker.has_feature("group.version"):
        return None
    return RememberedConsumerHeartbeat(exchange, data) if says_nothing_new(exchange.request) else None


# Fetches


class RememberedFetch:
    """A Fetch, without a session or of a session under way."""

    __slots__ = ("_endpoint", "_layout", "_request")

    def __init__(self, exchange: Exchange, layout: Layout) -> None:
        self._endpoint = exchange.endpoint
        self._request: FetchRequest = exchange.request
        self._layout = layout

    def serve(self, session: RememberingSession, data: bytes, now: float) -> bool:
        size, mask, fixed, numbers = self._layout
        if len(data) != size or int.from_bytes(data) & mask != fixed:
            return False
        # Without a session the broker knows the request again by its identity.
        request = self._request
        if request.session_id:
            (epoch,) = numbers(data)
            if epoch <= INITIAL_EPOCH:
                return False
            request = request.copied()
            request.session_epoch = epoch
        exchange = Exchange(session, self._endpoint, request, session.client, data[8:12])
        exchange.arrive(now)
        if not exchange.finished:
            session.begin(exchange)
        return True


def _fetch(session: RememberingSession, exchange: Exchange, data: bytes, head: bytes) -> RememberedRequest | None:
    request = exchange.request
    if request.session_epoch > INITIAL_EPOCH and request.session_id:
        turned = request.copied()
        _turn_over(turned, ("session_epoch",))
        layout = _layout(exchange, data, head, turned, "i")
    elif request.session_epoch < INITIAL_EPOCH and not request.session_id:
        layout = layout_of(data, data, "")
    else:
        return None
    return None if layout is None else RememberedFetch(exchange, layout)


def _layout(exchange: Exchange, data: bytes, head: bytes, turned: Message, codes: str) -> Layout | None:
    """The layout of the numbers that are turned over in `turned`. None if we would write another frame than the client
    did."""
    version = exchange.version
    if head + exchange.request.encode(version) != data:
        return None
    return layout_of(data, head + turned.encode(version), codes)


# Commits

_OFFSET: Final = ("committed_offset",)
_REST: Final = ("partition_index", "committed_leader_epoch")
_VARYING: Final = (*_OFFSET, *_REST)


class _Keys(dict[int, OffsetCommitKey]):
    """The keys of one topic's offsets by partition, made when first needed. KeyError if there is no such partition."""

    def __init__(self, group_id: str, topic: str, partitions: int) -> None:
        super().__init__()
        self._group_id = group_id
        self._topic = topic
        self._partitions = partitions

    def __missing__(self, partition: int) -> OffsetCommitKey:
        if not 0 <= partition < self._partitions:
            raise KeyError(partition)
        key = self[partition] = OffsetCommitKey(self._group_id, self._topic, partition)
        return key


class AnswerLayout:
    """Where the partitions stand in the frame of an answer, the rest of which is always the same."""

    __slots__ = ("_pack", "_rest", "_size")

    def __init__(self, frame: bytes, turned: bytes) -> None:
        places = int.from_bytes(frame) ^ int.from_bytes(turned)
        layout, position = ">", 0
        for run in re.finditer(b"\xff{4}", places.to_bytes(len(frame))):
            layout += f"{run.start() - position}xi"
            position = run.end()
        self._pack = _packer(f"{layout}{len(frame) - position}x")
        self._rest = int.from_bytes(frame) & ~places
        self._size = len(frame)

    def split_around_correlation_id(self, partitions: Sequence[int]) -> tuple[bytes, bytes]:
        """The frame with these partitions: what stands before the correlation id, and what after it."""
        whole = (int.from_bytes(self._pack(*partitions)) | self._rest).to_bytes(self._size)
        return whole[:4], whole[8:]


@lru_cache(maxsize=256)
def _packer(layout: str) -> Callable[..., bytes]:
    return Struct(layout).pack


class CommitShape:
    """What commits of one group have in common that differ only in who commits, and in their numbers.

    `keys` are those of the topic of each partition in the request. As long as `revision` is that of the topics, which
    partitions exist is known. `mask` and `read` are of all numbers, `mask_of_offsets` and `read_offsets` of those that
    differ between two commits of the same partitions.
    """

    __slots__ = ("answers", "keys", "mask", "mask_of_offsets", "read", "read_offsets", "revision", "size")

    def __init__(
        self, layout: Layout, of_offsets: Layout, answers: AnswerLayout, keys: list[_Keys], revision: int
    ) -> None:
        self.size = layout.size
        self.mask = layout.mask
        self.read = layout.numbers
        self.mask_of_offsets = of_offsets.mask
        self.read_offsets = of_offsets.numbers
        self.answers = answers
        self.keys = keys
        self.revision = revision


class RememberedCommit:
    """An OffsetCommit that differs from one before in its partitions, offsets and leader epochs alone.

    What follows from the partitions is kept for the next commit, which may have the same.
    """

    __slots__ = (
        "_commit",
        "_commit_again",
        "_fixed",
        "_fixed_but_offsets",
        "_numbers",
        "_shape",
        "_topics",
        "answer",
        "body",
        "endpoint",
        "traced",
    )

    def __init__(self, exchange: Exchange, commit: Commit, shape: CommitShape, data: bytes, body: int) -> None:
        node = exchange.session.node
        self.endpoint = exchange.endpoint
        self.body = body
        self._commit = commit
        self._commit_again = node.groups.commit_again
        self._shape = shape
        self._fixed = int.from_bytes(data) & shape.mask
        self._fixed_but_offsets = int.from_bytes(data) & shape.mask_of_offsets
        self._numbers = len(_codes(exchange.version))
        self._topics = node.broker.topics
        partitions = list(_partitions(exchange.request))
        self.traced: Template | None = None
        # The keys of the shape, which all members of the group share, take the place of those of the request.
        self._change(
            tuple(each.partition_index for each in partitions),
            tuple(each.committed_leader_epoch for each in partitions),
        )

    def serve(self, session: RememberingSession, data: bytes, now: float) -> bool:
        shape = self._shape
        if len(data) != shape.size or self._topics.revision != shape.revision:
            return False
        whole = int.from_bytes(data)
        again = whole & shape.mask_of_offsets == self._fixed_but_offsets
        if again:
            offsets = shape.read_offsets(data)
        elif whole & shape.mask == self._fixed:
            numbers = shape.read(data)
            each = self._numbers
            offsets = numbers[1::each]
            try:
                self._change(numbers[::each], numbers[2::each] if each == 3 else None)
            except KeyError:
                return False
            self._fixed_but_offsets = whole & shape.mask_of_offsets
        else:
            return False
        node = session.node
        outbox = node.outbox
        outbox.begin()
        if not self._commit_again(self._commit, offsets, now):
            return False
        self.endpoint.calls += 1
        exchange = RepeatedCommit(session, self, data, now)
        if outbox.tracing and again and self.traced is None:
            exchange.response = commit_answer(exchange.request, 0)
            self.traced = exchange.traced = template_of(exchange)
            exchange.response = None
        session.begin(exchange)
        if outbox.required_batch > node.durability.durable:
            node.durability.hold(outbox.required_batch, exchange)
        else:
            exchange.send(now)
        return True

    def _change(self, partitions: tuple[int, ...], epochs: tuple[int, ...] | None) -> None:
        """The commit is to these partitions from now on, with these leader epochs unless the version has none. Raises
        KeyError if a partition does not exist."""
        keys = [of_topic[each] for of_topic, each in zip(self._shape.keys, partitions, strict=True)]
        self._commit = self._commit.moved(keys, self._commit.leader_epochs if epochs is None else epochs)
        self.answer = self._shape.answers.split_around_correlation_id(partitions)
        self.traced = None


class RepeatedCommit(Exchange):
    """The exchange of a remembered commit. Its request is decoded, and its response made, only if somebody needs to see
    them."""

    __slots__ = ("_frame", "_remembered", "traced")

    def __init__(self, session: RememberingSession, remembered: RememberedCommit, frame: bytes, now: float) -> None:
        self.session = session
        self.endpoint = remembered.endpoint
        self.client = session.client
        self.correlation_id = correlation_id = frame[8:12]
        self.arrived = self.since = now
        before, after = remembered.answer
        self.data = before + correlation_id + after
        self.response = None
        self.step = _held
        self.traced = remembered.traced
        self._frame = frame
        self._remembered = remembered

    @property
    def request(self) -> OffsetCommitRequest:
        remembered = self._remembered
        request: OffsetCommitRequest = remembered.endpoint.decode(
            self._frame, remembered.body, self.session.node.broker
        )
        return request

    def send(self, now: float) -> None:
        node = self.session.node
        if self.response is not None:
            super().send(now)
        elif node.interceptor is not None or (node.outbox.tracing and self.traced is None):
            self.response = commit_answer(self.request, 0)
            super().send(now)
        else:
            if self.traced is not None and node.outbox.tracing:
                node.outbox.events.append((self.traced, _number(self.correlation_id), self.arrived))
            self.step = _sent
            self.session.finish_with(self.data, now)


def _commit(session: RememberingSession, exchange: Exchange, data: bytes, head: bytes) -> RememberedRequest | None:
    """Nothing is worked out for the first commit of a member in a generation."""
    request: OffsetCommitRequest = exchange.request
    if len(data) > MAX_COMMIT_BYTES:
        return None
    identity = (request.group_id, request.generation_id_or_member_epoch, request.member_id)
    if identity != session.last_commit:
        session.last_commit = identity
        return None
    node = session.node
    if not all_exist(request, node.broker):
        return None
    commit = node.groups.repeatable_commit(request, member_epochs=exchange.version >= 9)
    shape = _shape(exchange, data, head)
    if commit is None or shape is None:
        return None
    return RememberedCommit(exchange, commit, shape, data, len(head))


def _shape(exchange: Exchange, data: bytes, head: bytes) -> CommitShape | None:
    """The shape of a commit. None if we would write another frame than the client did."""
    request: OffsetCommitRequest = exchange.request
    node = exchange.session.node
    instance_id = request.group_instance_id
    key = (
        exchange.version,
        len(head),
        request.group_id,
        len(request.member_id.encode()),
        -1 if instance_id is None else len(instance_id.encode()),
        *(
            (topic.name, tuple((each.committed_metadata, each.commit_timestamp) for each in topic.partitions))
            for topic in request.topics
        ),
    )
    shape = node.commit_shapes.get(key)
    if shape is None or shape.revision != node.broker.topics.revision:
        shape = _work_out(exchange, data, head)
        if shape is None:
            return None
        if len(node.commit_shapes) >= MAX_SHAPES:
            node.commit_shapes.clear()
        node.commit_shapes[key] = shape
    # A client may write a length with more bytes than it needs; then the frame is longer than ours.
    return shape if shape.size == len(data) else None


def _work_out(exchange: Exchange, data: bytes, head: bytes) -> CommitShape | None:
    request: OffsetCommitRequest = exchange.request
    node = exchange.session.node
    version = exchange.version
    turned = exchange.endpoint.decode(data, len(head), node.broker)
    for each in _partitions(turned):
        _turn_over(each, _OFFSET)
    of_offsets = _layout(exchange, data, head, turned, "q")
    for each in _partitions(turned):
        _turn_over(each, _REST)
    layout = _layout(exchange, data, head, turned, _codes(version))
    if layout is None or of_offsets is None:
        return None
    keys: list[_Keys] = []
    for topic in request.topics:
        of_topic = _Keys(request.group_id, topic.name, node.broker.partitions_of(topic.name))
        keys += [of_topic] * len(topic.partitions)
    frames = [exchange.endpoint.frame(bytes(4), commit_answer(each, 0).encode(version)) for each in (request, turned)]
    return CommitShape(layout, of_offsets, AnswerLayout(*frames), keys, node.broker.topics.revision)


@cache
def _codes(version: int) -> str:
    """The `struct` codes of what may differ in each partition of a commit."""
    return "".join(
        each.type.code
        for each in OffsetCommitRequestPartition.fields
        if each.name in _VARYING and version in each.versions and isinstance(each.type, Fixed)
    )


def _partitions(request: OffsetCommitRequest) -> Iterator[OffsetCommitRequestPartition]:
    return (each for topic in request.topics for each in topic.partitions)


_MAKERS: Final[dict[int, Callable[[RememberingSession, Exchange, bytes, bytes], RememberedRequest | None]]] = {
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_heartbeat,
    ApiKey.FETCH: _fetch,
    ApiKey.OFFSET_COMMIT: _commit,
}
