"""`ProxiedConnection`: a client's connection and the relay's own to the broker behind it, without sockets.

It reads the requests and answers that the trace needs, matches them, and holds answers with broker addresses until they
are changed. Everything else passes unchanged; unreadable data passes too and is noted.

Kafka answers the requests of a connection in their order; only a Produce without acknowledgement is never answered.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.headers import decode_request_header, decode_response_header, is_flexible
from kafka_shim.relay import addresses
from kafka_shim.relay.frames import Frames, ReadPlan
from kafka_shim.server.trace import GROUP_KEYS, software_of

READ_BYTES: Final = 1 << 20
"""Larger frames pass unread, except for answers that always name brokers."""
NAMING_BYTES: Final = 64 << 20
"""Larger answers that always name brokers pass unread."""
MAX_IN_FLIGHT: Final = 500
"""With this many unanswered requests, the relay stops reading from the client."""


TRACED: Final = GROUP_KEYS | {ApiKey.TXN_OFFSET_COMMIT}
"""The APIs with `exchange` events in the trace."""
_REQUESTS_READ: Final = TRACED | {ApiKey.LIST_OFFSETS}
_ANSWERS_READ: Final = TRACED | {ApiKey.LIST_OFFSETS, ApiKey.FETCH, ApiKey.METADATA}
_ALWAYS_NAMING: Final = {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER}

_HIGHEST_KEY: Final = 1000
_REQUEST_HEAD: Final = 8
_ANSWER_HEAD: Final = 4
_LONGEST_HEADER: Final = 70_000
"""Longest possible request header and transactional id in front of the acknowledgements of a Produce."""

_unpack_head: Final = struct.Struct(">hhi").unpack_from
_unpack_id: Final = struct.Struct(">i").unpack_from
_unpack_short: Final = struct.Struct(">h").unpack_from
_pack_size: Final = struct.Struct(">i").pack


class PendingRequest:
    """A request that is not answered yet. `request` is None if it was not read.

    `arrived` is the time, in monotonic seconds, at which the broker can process it: after it came, and after the answer
    to the request before it.
    """

    __slots__ = ("arrived", "client_id", "correlation_id", "connection", "key", "request", "version")

    def __init__(self, connection: ProxiedConnection, key: int, version: int, correlation_id: int) -> None:
        self.connection = connection
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = ""
        self.arrived = 0.0
        self.request: Any = None

    @property
    def api(self) -> str:
        api = APIS.get(self.key)
        return api.name if api is not None else str(self.key)

    @property
    def readable(self) -> bool:
        """True if this code can decode this version."""
        api = APIS.get(self.key)
        return api is not None and self.version in api.request.versions


class BrokersAnswer(NamedTuple):
    """A held answer that names brokers: `frame` as it came, and its decoded `answer`."""

    pending: PendingRequest
    frame: bytes
    answer: Any
    brokers: list[addresses.NamedBroker]

    def changed(self) -> bytes:
        """Encode the frame again after `answer` was changed."""
        _, offset = decode_response_header(self.frame[4:], self.pending.key, self.pending.version)
        body = APIS[self.pending.key].response.encoder(self.pending.version)(self.answer)
        return _pack_size(offset + len(body)) + self.frame[4 : 4 + offset] + body


class ProxiedConnection:
    """The connection. `on_request` gets each decoded request, `on_answer` each decoded answer; `note` gets a text for
    unreadable data, equal for all cases of one kind.
    """

    def __init__(
        self,
        number: int,
        node: int,
        client_host: str,
        *,
        clock: Callable[[], float],
        on_request: Callable[[PendingRequest], None],
        on_answer: Callable[[PendingRequest, Any], None],
        note: Callable[[str], None],
    ) -> None:
        self.number = number
        self.node = node
        self.client_host = client_host
        self.software = ""
        """Name and version of the client's software, if its ApiVersions has them (KIP-511)."""
        self.waiting: deque[PendingRequest] = deque()
        self._clock = clock
        self._on_request = on_request
        self._on_answer = on_answer
        self._note = note
        self._requests: Frames[bytes] = Frames(_REQUEST_HEAD, self._request_begins, self._request_ends)
        self._answers: Frames[bytes | BrokersAnswer] = Frames(_ANSWER_HEAD, self._answer_begins, self._answer_ends)
        self._current: PendingRequest | None = None
        self._answering: PendingRequest | None = None
        self._is_unreadable = False

    @property
    def buffered(self) -> int:
        """Number of bytes in memory."""
        return self._requests.buffered + self._answers.buffered

    def from_client(self, data: bytes) -> bytes:
        """Return the bytes to send to the broker."""
        if self._is_unreadable:
            return data
        out = b"".join(self._requests.feed(data))
        self._stop_reading_if(self._requests.broken)
        return out

    def from_broker(self, data: bytes) -> list[bytes | BrokersAnswer]:
        """Return the data to send to the client, in order."""
        if self._is_unreadable and not self._answers.buffered:
            return [data]
        out = self._answers.feed(data)
        self._stop_reading_if(self._answers.broken)
        return out

    def _stop_reading_if(self, broken: str | None) -> None:
        if broken is not None and not self._is_unreadable:
            self._is_unreadable = True
            self.waiting.clear()
            self._note(f"a connection cannot be read and only passes ({broken})")

    # Requests

    def _request_begins(self, size: int, head: bytes) -> ReadPlan:
        key, version, correlation_id = _unpack_head(head)
        if not (0 <= key <= _HIGHEST_KEY and 0 <= version <= _HIGHEST_KEY):
            raise DecodeError(f"a request of key {key} and version {version}", 0, "RequestHeader")
        self._current = pending = PendingRequest(self, key, version, correlation_id)
        if key == ApiKey.PRODUCE:
            return ReadPlan(_LONGEST_HEADER)
        if key in _REQUESTS_READ and size <= READ_BYTES:
            return ReadPlan(size)
        self.waiting.append(pending)
        if key == ApiKey.API_VERSIONS and pending.readable and size <= _LONGEST_HEADER:
            return ReadPlan(size)
        return ReadPlan(_REQUEST_HEAD)

    def _request_ends(self, size: int, part: bytes) -> None:
        pending = self._current
        assert pending is not None
        if pending.key == ApiKey.PRODUCE:
            if _acknowledged(part, pending.version):
                self.waiting.append(pending)
            return
        if pending.key == ApiKey.API_VERSIONS and pending.readable and len(part) == size:
            self.software = _software(part, pending.version)
            return
        if pending.key == ApiKey.SASL_HANDSHAKE and pending.version == 0:
            raise DecodeError("after SaslHandshake of version 0 comes what is no frame of Kafka's", 0, "SaslHandshake")
        if pending.key not in _REQUESTS_READ:
            return
        if len(part) < size:
            self._note(f"{pending.api} above {READ_BYTES} bytes is not read")
            return
        pending.arrived = self._clock()
        self.waiting.append(pending)
        if not pending.readable:
            self._note(f"{pending.api} of version {pending.version} cannot be read")
            return
        try:
            *_, client_id, offset = decode_request_header(part)
            api = APIS[pending.key]
            pending.request = api.normalise(api.request.decoder(pending.version)(part, offset)[0], pending.version)
        except DecodeError as error:
            self._note(f"{pending.api} of version {pending.version} cannot be read ({error})")
            return
        pending.client_id = client_id or ""
        if self.waiting[0] is pending:
            self._on_request(pending)

    # Answers

    def _answer_begins(self, size: int, head: bytes) -> ReadPlan:
        (correlation_id,) = _unpack_id(head)
        if not self.waiting:
            raise DecodeError("an answer without a request", 0, "ResponseHeader")
        self._answering = pending = self.waiting.popleft()
        if pending.correlation_id != correlation_id:
            raise DecodeError("an answer to another request than the first", 0, "ResponseHeader")
        if not pending.readable:
            if pending.key in _ALWAYS_NAMING:
                self._note(f"{pending.api} of version {pending.version} is unknown: it names the real brokers")
            return ReadPlan(_ANSWER_HEAD)
        naming = pending.version >= addresses.SINCE.get(pending.key, _HIGHEST_KEY)
        if naming and size <= (NAMING_BYTES if pending.key in _ALWAYS_NAMING else READ_BYTES):
            return ReadPlan(size, hold=True)
        if pending.key in _ALWAYS_NAMING:
            self._note(f"{pending.api} above {NAMING_BYTES} bytes is not read: it names the real brokers")
        if pending.key in _ANSWERS_READ and size <= READ_BYTES:
            return ReadPlan(size)
        return ReadPlan(_ANSWER_HEAD)

    def _answer_ends(self, size: int, part: bytes) -> bytes | BrokersAnswer | None:
        pending = self._answering
        assert pending is not None
        try:
            return self._read_answer(pending, size, part)
        finally:
            if self.waiting and self.waiting[0].request is not None:
                self.waiting[0].arrived = self._clock()
                self._on_request(self.waiting[0])

    def _read_answer(self, pending: PendingRequest, size: int, part: bytes) -> bytes | BrokersAnswer | None:
        if len(part) < size or not pending.readable:
            return None
        frame = _pack_size(size) + part
        try:
            _, offset = decode_response_header(part, pending.key, pending.version)
            answer, _ = APIS[pending.key].response.decoder(pending.version)(part, offset)
        except DecodeError as error:
            self._note(f"the answer to {pending.api} of version {pending.version} cannot be read ({error})")
            return frame
        if pending.key in _ANSWERS_READ:
            self._on_answer(pending, answer)
        brokers = addresses.brokers_in(pending.key, answer) if pending.key in addresses.SINCE else []
        return BrokersAnswer(pending, frame, answer, brokers) if brokers else frame


def _acknowledged(part: bytes, version: int) -> bool:
    """True if a Produce is answered: its acknowledgements, after the transactional id, are not 0."""
    *_, offset = decode_request_header(part)
    try:
        if version >= 3:
            if is_flexible(ApiKey.PRODUCE, version):
                length = shift = 0
                while True:
                    byte = part[offset]
                    length |= (byte & 0x7F) << shift
                    shift += 7
                    offset += 1
                    if byte < 0x80:
                        break
                offset += max(length - 1, 0)
            else:
                (length,) = _unpack_short(part, offset)
                offset += 2 + max(length, 0)
        return bool(_unpack_short(part, offset)[0])
    except (IndexError, struct.error):
        raise DecodeError("a Produce that ends too soon", offset, "ProduceRequest") from None


def _software(part: bytes, version: int) -> str:
    """Return name and version of the software in an ApiVersions; empty if it has none."""
    try:
        *_, offset = decode_request_header(part)
        request: Any = APIS[ApiKey.API_VERSIONS].request.decoder(version)(part, offset)[0]
    except DecodeError:
        return ""
    return software_of(request)
