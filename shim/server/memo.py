"""The request that a client sends again and again, remembered by its bytes.

Decides whether bytes are a remembered request, which they are if nothing differs but the correlation id and, as the
request may be, some numbers at known places: within a fetch session the session's epoch, in a commit the offsets. A
memo hands the request to the rule that any other request would get; what it saves is splitting, decoding and encoding.
It does not know what a heartbeat, a fetch or a commit does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kafka_shim.apis.fetch import FetchRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from kafka_shim.apis.offset_commit import error as commit_answer
from kafka_shim.apis.wire import Message
from kafka_shim.groups.commits import Commit
from kafka_shim.groups.repeated import Template
from kafka_shim.server.durability import Held
from kafka_shim.server.handlers import all_exist
from kafka_shim.server.trace import template_of

if TYPE_CHECKING:
    from kafka_shim.server.session import Session
    from kafka_shim.server.table import Served

INITIAL_EPOCH: Final = 0
"""The session epoch of a fetch that asks for a session; -1 is that of one that asks for none."""
MAX_COMMIT_BYTES: Final = 4096
"""Commits of so many bytes, 200 partitions or so, are remembered: what is kept is several times as much."""

_correlation: Final = Struct(">8xi").unpack_from
_number: Final = Struct(">i").unpack


class Memo:
    """A remembered request of a session."""

    __slots__ = ()

    def serve(self, session: Session, data: bytes, now: float) -> bool:
        """Serve `data`, of the same first eight bytes, if it is the remembered request, whole and alone; False if it is
        not."""
        raise NotImplementedError


class HeartbeatMemo(Memo):
    """A Heartbeat. Its answers are constants, since they say an error code and nothing else."""

    __slots__ = (
        "_arguments",
        "_durability",
        "_end",
        "_heartbeat",
        "_outbox",
        "_request",
        "_send",
        "_served",
        "_traced",
        "_traced_code",
    )

    def __init__(self, session: Session, served: Served, request: HeartbeatRequest, data: bytes) -> None:
        node = session.node
        self._served = served
        self._request = request
        self._end = data[12:]
        self._outbox = node.outbox
        self._durability = node.durability
        self._heartbeat = node.groups.heartbeat
        self._send = session.transport.send
        self._traced: Template | None = None
        self._traced_code: int | None = None
        self._arguments = (request.group_id, request.generation_id, request.member_id, request.group_instance_id)

    def serve(self, session: Session, data: bytes, now: float) -> bool:
        if data[12:] != self._end:
            return False
        served = self._served
        served.calls += 1
        outbox = self._outbox
        outbox.gate = 0
        code = self._heartbeat(*self._arguments, now)
        if outbox.gate > self._durability.durable:
            session.answer_later(served, self._request, data[8:12], HeartbeatResponse(error_code=code), now)
            return True
        answer = served.constants.get(code)
        if answer is None:
            answer = served.constants[code] = served.around(HeartbeatResponse(error_code=code))
        if outbox.tracing:
            if code != self._traced_code:
                self._traced_code = code
                self._traced = template_of(session, served, self._request, HeartbeatResponse(0, code))
            outbox.events.append((self._traced, _correlation(data), now))
        before, after = answer
        if not self._send(before + data[8:12] + after):
            session.block()
        return True


class Committed(Memo):
    """An OffsetCommit of which it is not known yet whether the client commits to the same `partitions` again."""

    __slots__ = ("partitions",)

    def __init__(self, partitions: list[int]) -> None:
        self.partitions = partitions

    def serve(self, session: Session, data: bytes, now: float) -> bool:
        return False


class CommitMemo(Memo):
    """An OffsetCommit that differs from one served before in its offsets alone.

    As long as no topic comes, goes or grows, what was found of its partitions holds.
    """

    __slots__ = (
        "_commit",
        "_commit_again",
        "_constant",
        "_generation",
        "_mask",
        "_size",
        "_topics",
        "_unpack",
        "answer",
        "request",
        "served",
        "traced",
    )

    def __init__(
        self,
        session: Session,
        served: Served,
        request: OffsetCommitRequest,
        commit: Commit,
        data: bytes,
        mask: int,
        layout: str,
    ) -> None:
        node = session.node
        self.served = served
        self.request = request
        self.answer = served.around(commit_answer(request, 0))
        self._commit = commit
        self._commit_again = node.groups.commit_again
        self._size = len(data)
        self._mask = mask
        self._constant = int.from_bytes(data) & mask
        self._unpack = _unpacker(layout)
        self._topics = node.broker.topics
        self._generation = node.broker.topics.generation
        self.traced: Template | None = None

    def serve(self, session: Session, data: bytes, now: float) -> bool:
        if len(data) != self._size or int.from_bytes(data) & self._mask != self._constant:
            return False
        if self._topics.generation != self._generation:
            return False
        outbox = session.node.outbox
        outbox.gate = 0
        offsets = self._unpack(data)
        if not self._commit_again(self._commit, offsets, now):
            return False
        self.served.calls += 1
        session.take_up(self.served, self.request, data[8:12], now)
        session.node.durability.hold(outbox.gate, HeldCommit(self, session, offsets, now))
        return True

    def trace(self, session: Session) -> Template:
        """Make `traced`, the template of the `exchange` event."""
        answer = commit_answer(self.request, 0)
        self.traced = template_of(session, self.served, self.request, answer)
        return self.traced

    def recall(self, offsets: Sequence[int]) -> None:
        """Make `request` what was received with these offsets."""
        for each, offset in zip(_partitions(self.request), offsets, strict=True):
            each.committed_offset = offset


class HeldCommit(Held):
    """The answer to a commit that was remembered. Only if it must be changed the request is made whole again."""

    __slots__ = ("_memo", "_offsets")

    def __init__(self, memo: CommitMemo, session: Session, offsets: tuple[int, ...], since: float) -> None:
        self.session = session
        self.since = since
        self._memo = memo
        self._offsets = offsets

    def release(self, now: float) -> None:
        session = self.session
        if session.closed:
            return
        memo = self._memo
        correlation_id = session.correlation_id
        before, after = memo.answer
        node = session.node
        if node.interceptor is not None:
            memo.recall(self._offsets)
            session.release(commit_answer(memo.request, 0), before + correlation_id + after, now)
            return
        if node.outbox.tracing:
            node.outbox.events.append((memo.traced or memo.trace(session), _number(correlation_id), self.since))
        session.deliver(before + correlation_id + after, now)

    def fail(self, code: int, now: float) -> None:
        self._memo.recall(self._offsets)
        self.session.fail(code, now)


class FetchMemo(Memo):
    """A Fetch, without a session or of a session under way. The broker knows it by the identity of the request."""

    __slots__ = ("_cut", "_end", "_middle", "_request", "_served")

    def __init__(self, served: Served, request: FetchRequest, data: bytes, cut: int) -> None:
        self._served = served
        self._request = request
        self._middle = data[12:cut]
        self._end = data[cut + 4 :]
        self._cut = cut

    def serve(self, session: Session, data: bytes, now: float) -> bool:
        cut = self._cut
        if data[12:cut] != self._middle or data[cut + 4 :] != self._end:
            return False
        request = self._request
        if request.session_id:
            epoch = int.from_bytes(data[cut : cut + 4], signed=True)
            if epoch <= INITIAL_EPOCH:
                return False
            request.session_epoch = epoch
        session.correlation_id = data[8:12]
        session.run(self._served, request, now)
        return True


REMEMBERED: Final = frozenset({ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT})


def remember(
    session: Session, served: Served, request: Message, data: bytes, body: int, before: Memo | None
) -> Memo | None:
    """A memo of the request that is the frame `data` and was served, or None if there is nothing to gain.

    `body` is where its body begins, `before` the memo of the last request that began with the same eight bytes.
    """
    if served.key is ApiKey.HEARTBEAT:
        assert isinstance(request, HeartbeatRequest)
        return HeartbeatMemo(session, served, request, data)
    if served.key is ApiKey.OFFSET_COMMIT:
        assert isinstance(request, OffsetCommitRequest)
        return _remember_commit(session, served, request, data, body, before)
    assert isinstance(request, FetchRequest)
    if request.session_epoch > INITIAL_EPOCH and request.session_id:
        return FetchMemo(served, request, data, _epoch_at(served.version, body))
    if request.session_epoch < INITIAL_EPOCH and not request.session_id:
        return FetchMemo(served, request, data, sys.maxsize - 4)
    return None


def _epoch_at(version: int, body: int) -> int:
    """Where the session epoch of a Fetch from version 7 on stands, whose body begins at `body`."""
    replica_id = 4 if version < 15 else 0
    max_wait_min_bytes_max_bytes_isolation_session_id = 4 + 4 + 4 + 1 + 4
    return body + replica_id + max_wait_min_bytes_max_bytes_isolation_session_id


def _remember_commit(
    session: Session, served: Served, request: OffsetCommitRequest, data: bytes, body: int, before: Memo | None
) -> Memo | None:
    """Nothing more is worked out for a commit whose partitions are not those of the commit before it."""
    if len(data) > MAX_COMMIT_BYTES:
        return None
    partitions = [each.partition_index for topic in request.topics for each in topic.partitions]
    if isinstance(before, Committed) and partitions == before.partitions:
        commit = session.node.groups.known_commit(request) if all_exist(request, session.node.broker) else None
        found = _offsets_in(request, served.version, data, body)
        if commit is not None and found is not None:
            return CommitMemo(session, served, request, commit, data, *found)
    return Committed(partitions)


def _offsets_in(request: OffsetCommitRequest, version: int, data: bytes, body: int) -> tuple[int, str] | None:
    """Where the offsets stand in the frame `data`: a mask of all its other bytes but the correlation id, and the
    `struct` format that reads them. None if we would write another frame than the client did.

    They are the bytes that change when every bit of every offset is turned over.
    """
    head = data[:body]
    if head + request.encode(version) != data:
        return None
    _turn_over(request)
    turned = int.from_bytes(head + request.encode(version)) ^ int.from_bytes(data)
    _turn_over(request)
    layout = ">"
    position = 0
    for run in re.finditer(b"\xff{8}", turned.to_bytes(len(data))):
        layout += f"{run.start() - position}xq"
        position = run.end()
    correlation_id = 0xFFFFFFFF << (len(data) - 12) * 8
    everything = (1 << len(data) * 8) - 1
    return everything ^ turned ^ correlation_id, f"{layout}{len(data) - position}x"


def _turn_over(request: OffsetCommitRequest) -> None:
    for each in _partitions(request):
        each.committed_offset = ~each.committed_offset


def _partitions(request: OffsetCommitRequest) -> Iterable[OffsetCommitRequestPartition]:
    return [each for topic in request.topics for each in topic.partitions]


@lru_cache(maxsize=256)
def _unpacker(layout: str) -> Callable[[bytes], tuple[Any, ...]]:
    return Struct(layout).unpack
