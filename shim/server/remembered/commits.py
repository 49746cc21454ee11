"""Repeated commits: the same member commits other offsets, or other partitions of the same topics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, accepted
from kafka_shim.apis.wire.types import Fixed
from kafka_shim.groups.commits import Commit
from kafka_shim.persistence.records import OffsetCommitKey
from kafka_shim.server.connection import Connection
from kafka_shim.server.exchange import NO_PIECES, Exchange, Step
from kafka_shim.server.handlers import all_exist
from kafka_shim.server.node import Node
from kafka_shim.server.remembered.layout import IN_ANSWER, Layout, invert, layout_of, layout_of_request
from kafka_shim.trace.templates import Template

MAX_SHAPES: Final = 1024
"""The number of shapes of commits that a node remembers for all its connections."""
MAX_COMMIT_BYTES: Final = 4096
"""The largest commit to remember, about 200 partitions: its shortcut needs several times this memory."""

_number: Final = Struct(">i").unpack
_held, _sent = Step.HELD, Step.SENT

_OFFSET: Final = ("committed_offset",)
_REST: Final = ("partition_index", "committed_leader_epoch")
_VARYING: Final = (*_OFFSET, *_REST)


class _Keys(dict[int, OffsetCommitKey]):
    """The offset keys of one topic by partition, created at the first use. Raises KeyError for a partition that does
    not exist."""

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


class CommitShape(NamedTuple):
    """The common part of commits of one group that differ only in the sender and the numbers.

    `layout` is that of all numbers, `of_offsets` that of the offsets alone, which differ between two commits of the
    same partitions; `answers` has the partitions in the answer. `keys` are those of the topic of each partition in the
    request. The existence of partitions is known while `revision` is that of the topics.
    """

    layout: Layout
    of_offsets: Layout
    answers: Layout
    keys: list[_Keys]
    revision: int


class RememberedCommit:
    """An OffsetCommit that differs from an earlier one only in its partitions, offsets and leader epochs.

    Results that depend only on the partitions are kept for the next commit, which may have the same.
    """

    __slots__ = (
        "_commit",
        "_commit_again",
        "_fixed",
        "_fixed_but_offsets",
        "_node",
        "_numbers",
        "_shape",
        "_topics",
        "answer",
        "body",
        "endpoint",
        "traced",
    )

    def __init__(self, exchange: Exchange, commit: Commit, shape: CommitShape, data: bytes, body: int) -> None:
        self._node = node = exchange.node
        self.endpoint = exchange.endpoint
        self.body = body
        self._commit = commit
        self._commit_again = node.groups.commit_again
        self._shape = shape
        self._fixed = int.from_bytes(data) & shape.layout.mask
        self._fixed_but_offsets = int.from_bytes(data) & shape.of_offsets.mask
        self._numbers = len(_codes(exchange.version))
        self._topics = node.broker.topics
        partitions = list(_partitions(exchange.request))
        self.traced: Template | None = None
        # All members of the group share the keys of the shape, so they replace those of the request.
        self._change(
            tuple(each.partition_index for each in partitions),
            tuple(each.committed_leader_epoch for each in partitions),
        )

    def serve(self, session: Connection, data: bytes, now: float) -> bool:
        layout, of_offsets, _, _, revision = self._shape
        if len(data) != layout.size or self._topics.revision != revision:
            return False
        whole = int.from_bytes(data)
        repeat = whole & of_offsets.mask == self._fixed_but_offsets
        if repeat:
            offsets = of_offsets.struct.unpack(data)
        elif whole & layout.mask == self._fixed:
            numbers = layout.struct.unpack(data)
            each = self._numbers
            offsets = numbers[1::each]
            try:
                self._change(numbers[::each], numbers[2::each] if each == 3 else None)
            except KeyError:
                return False
            self._fixed_but_offsets = whole & of_offsets.mask
        else:
            return False
        node = self._node
        outbox = node.outbox
        outbox.required_batch = 0
        if not self._commit_again(self._commit, offsets, now):
            return False
        self.endpoint.calls += 1
        exchange = RepeatedCommit(node, session, self, data, now)
        if outbox.tracing and repeat and self.traced is None:
            exchange.response = accepted(exchange.request)
            self.traced = exchange.traced = node.exchanges.template_of(exchange)
            exchange.response = None
        session.begin(exchange)
        if outbox.required_batch > node.durability.durable:
            node.durability.held[outbox.required_batch].append(exchange)
        else:
            exchange.send(now)
        return True

    def _change(self, partitions: tuple[int, ...], epochs: tuple[int, ...] | None) -> None:
        """Change the partitions of the commit, and the leader epochs unless the version has none. Raises KeyError for a
        partition that does not exist."""
        keys = [of_topic[each] for of_topic, each in zip(self._shape.keys, partitions, strict=True)]
        self._commit = self._commit.with_keys(keys, self._commit.leader_epochs if epochs is None else epochs)
        self.answer = self._shape.answers.with_numbers(partitions)
        self.traced = None


class RepeatedCommit(Exchange):
    """The exchange of a remembered commit. It decodes the request and creates the response only for a reader such as
    the trace."""

    __slots__ = ("_frame", "_remembered", "traced")

    def __init__(self, node: Node, session: Connection, remembered: RememberedCommit, frame: bytes, now: float) -> None:
        self.node = node
        self.session = session
        self.endpoint = remembered.endpoint
        self.client = session.client
        self.correlation_id = correlation_id = frame[8:12]
        self.arrived = self.since = now
        before, after = remembered.answer
        self.data = before + correlation_id + after
        self.response = None
        self.amend = None
        self.usage = None
        self.step = _held
        self.traced = remembered.traced
        self._frame = frame
        self._remembered = remembered

    @property
    def request(self) -> OffsetCommitRequest:
        remembered = self._remembered
        request: OffsetCommitRequest = remembered.endpoint.decode(self._frame, remembered.body, self.node.broker)
        return request

    @property
    def is_long(self) -> bool:
        return False

    def send(self, now: float) -> None:
        node = self.node
        if self.response is None and (node.interceptor is not None or (node.outbox.tracing and self.traced is None)):
            self.response = accepted(self.request)
        if self.response is not None:
            self.pieces = NO_PIECES
            super().send(now)
        else:
            if self.traced is not None and node.outbox.tracing:
                node.outbox.events.append((self.traced, _number(self.correlation_id), self.arrived))
            self.step = _sent
            self.session.finish_with(self.data, now)


def remember_commit(session: Connection, exchange: Exchange, data: bytes, head: bytes) -> RememberedCommit | None:
    """Return a shortcut, or None for the first commit of a member in a generation, which may be the only one."""
    request: OffsetCommitRequest = exchange.request
    if len(data) > MAX_COMMIT_BYTES:
        return None
    identity = (request.group_id, request.generation_id_or_member_epoch, request.member_id)
    if identity != session.last_commit:
        session.last_commit = identity
        return None
    node = exchange.node
    if not all_exist(request, node.broker):
        return None
    commit = node.groups.repeatable_commit(request, member_epochs=exchange.version >= 9)
    shape = _shape(exchange, data, head)
    if commit is None or shape is None:
        return None
    return RememberedCommit(exchange, commit, shape, data, len(head))


def _shape(exchange: Exchange, data: bytes, head: bytes) -> CommitShape | None:
    """Return the shape of a commit; None if the client encodes it differently from us."""
    request: OffsetCommitRequest = exchange.request
    node = exchange.node
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
    # A client may encode a length in more bytes than necessary; then its frame is longer than ours.
    return shape if shape.layout.size == len(data) else None


def _work_out(exchange: Exchange, data: bytes, head: bytes) -> CommitShape | None:
    request: OffsetCommitRequest = exchange.request
    node = exchange.node
    version = exchange.version
    inverted = exchange.endpoint.decode(data, len(head), node.broker)
    for each in _partitions(inverted):
        invert(each, _OFFSET)
    of_offsets = layout_of_request(exchange, data, head, inverted, "q")
    for each in _partitions(inverted):
        invert(each, _REST)
    layout = layout_of_request(exchange, data, head, inverted, _codes(version))
    if layout is None or of_offsets is None:
        return None
    keys: list[_Keys] = []
    for topic in request.topics:
        of_topic = _Keys(request.group_id, topic.name, node.broker.topics.partitions_of(topic.name))
        keys += [of_topic] * len(topic.partitions)
    whole, changed = (exchange.endpoint.frame(bytes(4), accepted(each).encode(version)) for each in (request, inverted))
    answers = layout_of(whole, changed, "i", IN_ANSWER)
    return None if answers is None else CommitShape(layout, of_offsets, answers, keys, node.broker.topics.revision)


@cache
def _codes(version: int) -> str:
    """Return the `struct` codes of the varying numbers of a partition."""
    return "".join(
        each.type.code
        for each in OffsetCommitRequestPartition.fields
        if each.name in _VARYING and version in each.versions and isinstance(each.type, Fixed)
    )


def _partitions(request: OffsetCommitRequest) -> Iterator[OffsetCommitRequestPartition]:
    return (each for topic in request.topics for each in topic.partitions)
