"""The request that a client sends again and again, remembered by its bytes.

Decides whether bytes are the remembered request, which they are if nothing differs but the correlation id and, within a
fetch session, the session's epoch; both stand at known places. A memo hands the request to the rule that any other
request would get; what it saves is splitting, decoding and encoding. It does not know what a heartbeat or a fetch does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from apis.fetch import FetchRequest
from apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from apis.wire import Message
from apis.wire.frames import frame as framed
from shim.server.trace import Repeated, start_of_line

if TYPE_CHECKING:
    from shim.server.session import Session
    from shim.server.table import Served

FETCH: Final = 1
HEARTBEAT: Final = 12
INITIAL_EPOCH: Final = 0
"""The session epoch of a fetch that asks for a session; -1 is that of one that asks for none."""


class Memo:
    """A remembered request of a session."""

    __slots__ = ()

    def serve(self, session: Session, data: bytes, now: float) -> bool:
        """Serve `data` if it is the remembered request, whole and alone; False if it is not."""
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
        "_start",
        "_traced",
    )

    def __init__(self, session: Session, served: Served, request: HeartbeatRequest, data: bytes) -> None:
        node = session.node
        self._served = served
        self._request = request
        self._start = data[:8]
        self._end = data[12:]
        self._outbox = node.outbox
        self._durability = node.durability
        self._heartbeat = node.groups.heartbeat
        self._send = session.transport.send
        self._traced: dict[int, bytes] = {}
        self._arguments = (request.group_id, request.generation_id, request.member_id, request.group_instance_id)

    def serve(self, session: Session, data: bytes, now: float) -> bool:
        if data[12:] != self._end or data[:8] != self._start:
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
            whole = served.answer(b"\0\0\0\0", served.body(HeartbeatResponse(error_code=code)))
            answer = served.constants[code] = (whole[:4], whole[8:])
        if outbox.listening:
            start = self._traced.get(code)
            if start is None:
                start = self._traced[code] = start_of_line(session, served, self._request, HeartbeatResponse(0, code))
            outbox.events.append(Repeated(start, data[8:12], now))
        before, after = answer
        if not self._send(before + data[8:12] + after):
            session.block()
        return True


class FetchMemo(Memo):
    """A Fetch, without a session or of a session under way. The broker knows it by the identity of the request."""

    __slots__ = ("_cut", "_end", "_middle", "_request", "_served", "_start")

    def __init__(self, served: Served, request: FetchRequest, data: bytes, cut: int) -> None:
        self._served = served
        self._request = request
        self._start = data[:8]
        self._middle = data[12:cut]
        self._end = data[cut + 4 :]
        self._cut = cut

    def serve(self, session: Session, data: bytes, now: float) -> bool:
        cut = self._cut
        if data[12:cut] != self._middle or data[cut + 4 :] != self._end or data[:8] != self._start:
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


def remember(session: Session, served: Served, request: Message, frame: bytes, offset: int) -> Memo | None:
    """A memo of this request, or None if there is nothing to gain; `offset` is where its body begins."""
    if served.key == HEARTBEAT:
        assert isinstance(request, HeartbeatRequest)
        return HeartbeatMemo(session, served, request, framed(frame))
    if served.key == FETCH:
        assert isinstance(request, FetchRequest)
        if request.session_epoch > INITIAL_EPOCH and request.session_id:
            return FetchMemo(served, request, framed(frame), _epoch_at(served.version, 4 + offset))
        if request.session_epoch < INITIAL_EPOCH and not request.session_id:
            return FetchMemo(served, request, framed(frame), sys.maxsize - 4)
    return None


def _epoch_at(version: int, body: int) -> int:
    """Where the session epoch of a Fetch from version 7 on stands, whose body begins at `body`."""
    replica_id = 4 if version < 15 else 0
    max_wait_min_bytes_max_bytes_isolation_session_id = 4 + 4 + 4 + 1 + 4
    return body + replica_id + max_wait_min_bytes_max_bytes_isolation_session_id
