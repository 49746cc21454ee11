"""A relay between one client and a coordinator: it records every frame, and some go wrong by plan.

`Plan`s, in the order of their creation, decide the fate of a request or its answer; a request without a plan passes
unchanged. The client sees two brokers, both of them the relay, and one of them is the coordinator.

As in Kafka, answers leave a connection in the order of its requests: a held answer blocks later ones.
"""

from __future__ import annotations

import copy
import socket
import struct
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kafka_shim.apis import consumer_group_heartbeat
from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.headers import decode_request_header, encode_response_header, is_flexible

_SIZE: Final = struct.Struct(">i")
_GROUP_KEYS: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)
_READ_APIS: Final = {**APIS, consumer_group_heartbeat.API.key: consumer_group_heartbeat.API}
"""The APIs that the relay decodes. A coordinator may serve more of them than ours does."""
_RECORDS: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})

_NO_BROKER: Final = -2

Action = Literal["error", "withhold", "hold", "swallow", "close"]


@dataclass
class Exchange:
    """A request of a client and its answer. Seconds are monotonic; `answered` is None until the answer has left.

    It stays None if the answer is lost. `request` and `response` are None where the relay does not decode them.
    `by_plan`: a plan changed the exchange. `request_frame` and `response_frame` are the frames at the client's side,
    without their sizes; frames with records are not kept.
    """

    connection: int
    client_id: str
    broker: int
    api: str
    version: int
    request: Any
    at: float
    response: Any = None
    answered: float | None = None
    by_plan: bool = False
    request_frame: bytes = b""
    response_frame: bytes = b""

    @property
    def error(self) -> int | None:
        """The error in the answer, of the request or of its first partition; None before the answer."""
        if self.answered is None or self.response is None:
            return None
        code: int = getattr(self.response, "error_code", 0)
        for topic in getattr(self.response, "topics", []):
            for partition in getattr(topic, "partitions", []):
                code = code or getattr(partition, "error_code", 0)
        return code


@dataclass
class Plan:
    """A fault in requests of one API: `action`, for the next `times` of them for which `when` is true.

    error: answered with `code`, never forwarded. withhold: forwarded at `release`; later requests are forwarded first.
    hold: forwarded, the answer kept until `release`, which may replace it. swallow: forwarded, never answered. close:
    forwarded, the connection closed in place of the answer.
    """

    api: str
    action: Action
    code: int = 0
    times: float = 1
    when: Callable[[Exchange], bool] = lambda exchange: True
    fired: list[Exchange] = field(default_factory=list)
    slots: list[_Slot] = field(default_factory=list)

    def wants(self, exchange: Exchange) -> bool:
        """Return True if the plan applies to this request."""
        return self.api == exchange.api and len(self.fired) < self.times and self.when(exchange)


class _Slot:
    """The place of an answer in the order of its connection."""

    def __init__(self, exchange: Exchange, key: int, correlation_id: int, line: _Line) -> None:
        self.exchange = exchange
        self.key = key
        self.correlation_id = correlation_id
        self.line = line
        self.plan: Plan | None = None
        self.data: bytes | None = None
        self.is_held = False
        self.withheld: bytes | None = None


class _Line:
    """One connection of the client, with its own connection to the coordinator."""

    def __init__(self, relay: Relay, number: int, broker: int, client: socket.socket) -> None:
        self.relay = relay
        self.number = number
        self.broker = broker
        self.client = client
        self.server = socket.create_connection(relay.upstream)
        self.slots: deque[_Slot] = deque()
        self.upward: deque[_Slot] = deque()
        for end in (client, self.server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._read, args=(client, self._requested), daemon=True).start()
        threading.Thread(target=self._read, args=(self.server, self._answered), daemon=True).start()

    def _read(self, source: socket.socket, handle: Callable[[bytes], None]) -> None:
        try:
            with suppress(OSError), source.makefile("rb") as stream:
                while len(size := stream.read(4)) == 4:
                    handle(stream.read(_SIZE.unpack(size)[0]))
        except Exception:
            # An exception in a thread would be lost; the runner of the case reads it here.
            self.relay.troubles.append(traceback.format_exc())
        self.close()

    def close(self) -> None:
        """Close both connections."""
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _requested(self, data: bytes) -> None:
        key, version, correlation_id, client_id, offset = decode_request_header(data)
        api = _READ_APIS.get(key)
        request = None
        if api is not None and version in api.request.versions and key not in _RECORDS:
            with suppress(DecodeError):
                request, _ = api.request.decoder(version)(data, offset)
        own = data
        if isinstance(request, ApiVersionsRequest) and request.node_id != -1:
            data = data[:offset] + self._upstream(request).encode(version)
        exchange = Exchange(
            self.number,
            client_id or "",
            self.broker,
            api.name if api else str(key),
            version,
            request,
            time.monotonic(),
        )
        if key not in _RECORDS:
            exchange.request_frame = own
        slot = _Slot(exchange, key, correlation_id, self)
        with self.relay.changed:
            self.relay.exchanges.append(exchange)
            self.slots.append(slot)
            code = self._refusal(slot)
            if code:
                self.relay.answer_error(slot, code)
            elif slot.plan is not None and slot.plan.action == "withhold":
                slot.withheld = data
            else:
                self.forward(slot, data)
            self.relay.changed.notify_all()

    def _upstream(self, request: ApiVersionsRequest) -> ApiVersionsRequest:
        """Return the request with the coordinator's own id for that of this broker (KIP-1242)."""
        request = copy.copy(request)
        request.node_id = self.relay.upstream_id if request.node_id == self.broker else _NO_BROKER
        return request

    def forward(self, slot: _Slot, data: bytes) -> None:
        """Send a request to the coordinator. The caller holds the relay's lock."""
        self.upward.append(slot)
        with suppress(OSError):
            self.server.sendall(_SIZE.pack(len(data)) + data)

    def _refusal(self, slot: _Slot) -> int:
        """Return the error to answer at once, or 0; note the plan for this request."""
        if slot.key in _GROUP_KEYS and self.broker != self.relay.coordinator:
            return ErrorCode.NOT_COORDINATOR
        for plan in self.relay.plans:
            if plan.wants(slot.exchange):
                plan.fired.append(slot.exchange)
                slot.exchange.by_plan = True
                if plan.action == "error":
                    return plan.code
                slot.plan = plan
                if plan.action in ("hold", "withhold"):
                    slot.is_held = plan.action == "hold"
                    plan.slots.append(slot)
                break
        return 0

    def _answered(self, data: bytes) -> None:
        with self.relay.changed:
            slot = self.upward.popleft()
            (correlation_id,) = _SIZE.unpack_from(data)
            while slot.correlation_id != correlation_id:
                # Only Produce without acknowledgement is never answered.
                self.slots.remove(slot)
                slot = self.upward.popleft()
            slot.data = self.relay.rewritten(slot, data)
            self.flush()

    def _send_answer(self, slot: _Slot, data: bytes) -> None:
        # Before sending: the client's next request must not get an earlier time.
        at = time.monotonic()
        with suppress(OSError):
            self.client.sendall(_SIZE.pack(len(data)) + data)
            slot.exchange.answered = at
            if slot.key not in _RECORDS:
                slot.exchange.response_frame = data

    def flush(self) -> None:
        """Send the answers that are ready, in order. The caller holds the relay's lock."""
        while self.slots and (head := self.slots[0]).data is not None and not head.is_held:
            self.slots.popleft()
            action = head.plan.action if head.plan else None
            if action == "swallow":
                continue
            if action == "close":
                self.close()
            else:
                self._send_answer(head, head.data)
            self.relay.changed.notify_all()


class Relay:
    """The relay of one scenario. Use it in a `with` block; `bootstrap` is the address for clients.

    `changed` guards all its state, and is notified of every request and every answer. `troubles` are errors of the
    relay itself.
    """

    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.upstream_id = 1
        """The node id of the coordinator, as its last Metadata answer has it."""
        self.changed = threading.Condition(threading.RLock())
        self.exchanges: list[Exchange] = []
        self.plans: list[Plan] = []
        self.coordinator = 1
        self.troubles: list[str] = []
        self._lines: list[_Line] = []
        self._listeners = {broker: socket.create_server(("127.0.0.1", 0)) for broker in (1, 2)}
        self.ports = {broker: int(listener.getsockname()[1]) for broker, listener in self._listeners.items()}

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.ports[1]}"

    def __enter__(self) -> Relay:
        for broker, listener in self._listeners.items():
            threading.Thread(target=self._accept, args=(broker, listener), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for line in list(self._lines):
            line.close()

    def _accept(self, broker: int, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                self._lines.append(_Line(self, len(self._lines) + 1, broker, client))
            except OSError:
                return

    # For scenarios

    def plan(self, api: str, action: Action, code: int = 0, **options: Any) -> Plan:
        """Plan a fault from now on; see `Plan`."""
        with self.changed:
            self.plans.append(Plan(api, action, code, **options))
            return self.plans[-1]

    def release(self, plan: Plan, code: int | None = None) -> None:
        """Release the held frames of a plan, with the error `code` as answer if there is one; the plan ends."""
        with self.changed:
            plan.times = 0
            for slot in plan.slots:
                slot.is_held = False
                if code is not None:
                    self.answer_error(slot, code)
                elif slot.withheld is not None:
                    slot.line.forward(slot, slot.withheld)
                slot.line.flush()
            plan.slots.clear()

    def drop_connections(self, client_id: str) -> None:
        """Close every connection with this client id."""
        with self.changed:
            numbers = {each.connection for each in self.exchanges if each.client_id == client_id}
        for line in self._lines:
            if line.number in numbers:
                line.close()

    def move_coordinator(self) -> None:
        """Make the other broker the coordinator; the old one answers NOT_COORDINATOR from now on."""
        with self.changed:
            self.coordinator = 3 - self.coordinator

    def seen(self, api: str, client_id: str | None = None, since: float = 0.0) -> list[Exchange]:
        """Return the requests of an API so far, oldest first."""
        with self.changed:
            return [
                each
                for each in self.exchanges
                if each.api == api and (client_id is None or each.client_id == client_id) and each.at >= since
            ]

    def wait(self, condition: Callable[[], Any], seconds: float) -> Any:
        """Wait until `condition` is true, checked at every frame; return its value, or None on a timeout."""
        with self.changed:
            return self.changed.wait_for(condition, seconds) or None

    # Answers to clients. The caller holds the lock.

    def answer_error(self, slot: _Slot, code: int) -> None:
        """Replace the answer of a slot by one with error `code`."""
        api, exchange = _READ_APIS[slot.key], slot.exchange
        # The request is evidence: normalise a copy.
        request = api.normalise(copy.deepcopy(exchange.request), exchange.version)
        response = api.shape(api.error(request, code), exchange.version)
        exchange.response = response
        header = encode_response_header(slot.key, exchange.version, slot.correlation_id)
        slot.data = header + api.response.encoder(exchange.version)(response)
        slot.line.flush()

    def rewritten(self, slot: _Slot, data: bytes) -> bytes:
        """Return an answer with the addresses of the relay."""
        if slot.data is not None:
            return slot.data
        exchange = slot.exchange
        if exchange.request is None or slot.key == ApiKey.API_VERSIONS:
            return data
        api, version = _READ_APIS[slot.key], exchange.version
        offset = 5 if is_flexible(slot.key, version) else 4
        try:
            decoded, _ = api.response.decoder(version)(data, offset)
        except DecodeError:
            return data
        response: Any = decoded
        exchange.response = response
        if slot.key == ApiKey.METADATA:
            self._replace_brokers(response)
        elif slot.key == ApiKey.FIND_COORDINATOR:
            for each in [response, *response.coordinators]:
                if each.port > 0:
                    each.node_id, each.host = self.coordinator, "127.0.0.1"
                    each.port = self.ports[self.coordinator]
        else:
            return data
        return data[:offset] + api.response.encoder(version)(response)

    def _replace_brokers(self, response: Any) -> None:
        self.upstream_id = response.brokers[0].node_id
        kind = type(response.brokers[0])
        response.brokers = [kind(broker, "127.0.0.1", port) for broker, port in self.ports.items()]
        response.controller_id = 1
        for topic in response.topics:
            for partition in topic.partitions:
                partition.leader_id = 1
                partition.replica_nodes = partition.isr_nodes = [1]
